/**
 * `make schema` runs this file. What a definition looks like depends on PostgreSQL's major version, and verify compares it on
 * each version that is supported. So the schema is written down on each of them, from the oldest to the one that we ship
 * (schema_dump.ts).
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPrograms, OTHER_MAJORS } from '../../src/local/old_programs.ts';
import { startServer } from '../../src/local/postgres.ts';

const dump = (address: Record<string, string>) =>
  execFileSync(process.execPath, [join(import.meta.dirname, 'schema_dump.ts')], {
    env: { ...process.env, ...address },
    stdio: 'inherit',
  });

for (const major of Object.keys(OTHER_MAJORS).map(Number)) {
  // Before 17, the server has no locales of its own.
  const programs = { dir: await installPrograms(major), locale: ['--locale=C'] };
  const folder = await mkdtemp(join(tmpdir(), 'runledger-schema-'));
  // Before 16, initdb must find its way back to where it began.
  await chmod(folder, 0o711);
  const password = randomBytes(16).toString('hex');
  const server = await startServer({
    ...{ data_dir: join(folder, 'data'), password, programs },
    ...{ port: null, uid: null, durable: false, settings: {} },
  });
  try {
    const url = `postgres://postgres:${password}@127.0.0.1:${server.port}/postgres`;
    dump({ RUNLEDGER_TEST_DATABASE_URL: url });
    console.log(`the schema on PostgreSQL ${major} is written`);
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
dump({});
