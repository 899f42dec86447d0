// needs: isolation
/** Web and worker as processes of their own, before they have started. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { CANNOT_RUN } from '../../src/local/child.ts';
import { createLog } from '../../src/log.ts';
import { withinOpenFiles } from '../../src/processes/open_files.ts';
import { onceItAnswers } from '../../src/processes/process.ts';
import { cuttable } from '../http/support/cuttable.ts';
import { webProcess } from '../http/support/web_process.ts';
import { freshDatabase } from '../support/database.ts';
import { until } from '../support/eventually.ts';

const CLI = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

for (const name of ['web', 'worker'])
  t.test(`${name} stops when asked while its database does not answer`, async (t) => {
    const { child, said, exited } = await asksForEver(t, process.execPath, [CLI, name]);
    child.kill('SIGTERM');
    t.same(await exited, [0, null], 'it ends by itself');
    t.match(Buffer.concat(await said).toString(), /"reason":"SIGTERM","msg":"stopped before/);
  });

t.test('whether there is a pooler is decided when the database answers', async (t) => {
  const { urls } = await freshDatabase(t);
  for (const name of ['web', 'worker'] as const) {
    const database = await cuttable(t, urls[name]);
    await database.cut();
    const config = { ...loadConfig({}), database_url: database.url };
    const { promise: waits, resolve } = Promise.withResolvers<unknown>();
    const log = { ...createLog({ level: 'silent', process: name }), warn: resolve } as never;
    const decided = onceItAnswers({ config, log }, name);
    const first = await Promise.race([waits, decided]);
    t.match(first, { cause: 'ECONNREFUSED' }, 'it says that it waits');
    await database.mend();
    t.match(await decided, { database_pooled: false });
  }
});

t.test('web has metrics while it waits for its database, and starts when it is back', async (t) => {
  const fresh = await freshDatabase(t);
  const database = await cuttable(t, fresh.urls.web);
  await database.cut();
  const urls = { ...fresh.urls, web: database.url };
  const written: string[] = [];
  const starting = webProcess(t, { ...fresh, urls }, { RUNLEDGER_METRICS_PORT: '0' }, written);
  const said = (text: string) => written.find((line) => line.includes(text));
  await until(() => said('the database is away') !== undefined);
  const { port } = JSON.parse(said('metrics are served')!);
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  t.match(page, /^runledger_process_info\{process="web"\} 1$/m);
  t.match(page, /^runledger_database_up 0$/m, 'an alert looks at it');
  t.match(page, /^runledger_queue_capacity \d+$/m);
  t.notMatch(page, /^runledger_log_sealing /m, 'what tells another alert that it waits');
  await database.mend();
  const { origin } = await starting;
  t.equal((await fetch(`${origin}/readyz`)).status, 200);
});

const RUNLEDGER = fileURLToPath(new URL('../../runledger', import.meta.url));

for (const [how, before, reason] of [
  ['ends', '', 'SIGHUP'],
  ['that it was started to ignore leaves', "trap '' HUP;", 'SIGTERM'],
] as const)
  for (const name of ['web', 'worker'])
    t.test(`a SIGHUP ${how} ${name}`, async (t) => {
      const command = `${before} exec ${RUNLEDGER} ${name}`;
      const { child, said, exited } = await asksForEver(t, 'sh', ['-c', command]);
      child.kill('SIGHUP');
      if (before) child.kill('SIGTERM');
      t.same(await exited, [0, null]);
      t.match(Buffer.concat(await said).toString(), new RegExp(`"reason":"${reason}"`));
    });

for (const [before, ends] of [
  ['', 'SIGHUP'],
  ["trap '' HUP;", 'SIGTERM'],
] as const)
  t.test(`a command that does not stop by itself ends at ${ends}`, async (t) => {
    const command = `${before} exec ${RUNLEDGER} tiers list`;
    const { child, exited } = await asksForEver(t, 'sh', ['-c', command]);
    child.kill('SIGHUP');
    if (before) child.kill('SIGTERM');
    t.same(await exited, [null, ends]);
  });

for (const name of ['web', 'worker', 'serve'])
  t.test(`${name} refuses a limit of open files that is too low for programs`, async (t) => {
    // It does not get as far as the database.
    const database = createServer(() => child.kill('SIGKILL'));
    await once(database.listen(0, '127.0.0.1'), 'listening');
    t.teardown(() => database.close());
    const { port } = database.address() as AddressInfo;
    const child = spawn('prlimit', ['--nofile=400:400', process.execPath, CLI, name], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], DATABASE_URL: `postgres://u:p@127.0.0.1:${port}/d` },
    });
    const said = Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
    const [status] = await once(child, 'exit');
    t.equal(status, name === 'serve' ? 1 : CANNOT_RUN);
    const lines = Buffer.concat((await said).flat())
      .toString()
      .trim()
      .split('\n');
    t.equal(lines.length, 1, lines.join('\n'));
    t.match(lines[0], /only 400 files open here, and needs 512.*ulimit -n 4096/);
  });

t.test('web takes no more connections than it may have files open', (t) => {
  const config = loadConfig({});
  t.equal(withinOpenFiles(config, 1_024).connections_max, 768);
  t.equal(withinOpenFiles(config, Infinity).connections_max, config.connections_max);
  const many = { ...config, limits_files: 2_000 };
  t.throws(() => withinOpenFiles(many, 2_000), /needs 2256/);
  t.end();
});

/** Starts a process whose database takes the connection and never answers. */
async function asksForEver(
  t: { teardown(work: () => unknown): void },
  command: string,
  args: readonly string[],
) {
  const silent = createServer((socket) => socket.on('error', () => {}));
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port } = silent.address() as AddressInfo;
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: `postgres://u:p@127.0.0.1:${port}/d`,
      RUNLEDGER_DATABASE_TLS: 'disable',
      // A worker restarts without this one, and still ignores the signals that it was started to ignore.
      RUNLEDGER_DIGEST_KEY: Buffer.alloc(32).toString('base64'),
      PORT: '0',
    },
  });
  t.teardown(() => {
    child.kill('SIGKILL');
    silent.close();
  });
  const [said, exited] = [child.stdout.toArray(), once(child, 'exit')];
  await once(silent, 'connection');
  return { child, said, exited };
}
