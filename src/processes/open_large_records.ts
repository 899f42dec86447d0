/** Large records with their thread. */
import { type Config, databaseUrl } from '../config.ts';
import { startThread } from '../own_thread.ts';
import { createLargeRecords, type LargeRecords, type ThreadData } from '../store/large_records.ts';

const THREAD = new URL('./large_records_thread.ts', import.meta.url);

export function openLargeRecords(
  config: Config & { readonly database_pooled?: boolean },
): LargeRecords {
  const { database_tls, database_ca_file, database_pooled = false } = config;
  const workerData: ThreadData = {
    url: databaseUrl(config, 'web'),
    config: { database_tls, database_ca_file, database_pooled },
  };
  return createLargeRecords(() =>
    startThread(THREAD, {
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
    }),
  );
}
