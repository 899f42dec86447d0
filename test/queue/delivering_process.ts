/** Delivers webhooks as a separate process, for tests that kill it. */
import { loadConfig } from '../../src/config.ts';
import { connect } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { openLargeRecords } from '../../src/processes/open_large_records.ts';
import { createDelivering } from '../../src/queue/delivery_setup.ts';
import { startWebJobs } from '../../src/queue/web_jobs.ts';

const config = loadConfig();
const log = createLog({ level: 'warn', process: 'web', to: 'stderr' });
const db = connect(config.web_database_url!, { name: 'test web', max: 4 });
const deliver = createDelivering({
  config,
  log,
  db,
  large_records: openLargeRecords(config),
  resolve: async () => ({ kind: 'addresses', addresses: ['127.0.0.1'] }),
  ca: JSON.parse(process.argv[2]!) as string[],
});
await startWebJobs({ config, log, db, deliver, sealer: null });
