/** Web and worker as processes of their own, before they have started. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { connect } from '../../src/db.ts';
import { CANNOT_RUN } from '../../src/local/child.ts';
import { createLog } from '../../src/log.ts';
import { withinOpenFiles } from '../../src/processes/open_files.ts';
import { onceItAnswers } from '../../src/processes/process.ts';
import { cuttable } from '../http/support/cuttable.ts';
import { realWorker } from '../http/support/real_worker.ts';
import { webProcess } from '../http/support/web_process.ts';
import { freshDatabase } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { asksForEver, CLI, RUNLEDGER, stopsWhenAsked } from './silent_database.ts';

stopsWhenAsked(t, 'web');

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

t.test('web and worker end where a newer version migrates their database', async (t) => {
  const database = await freshDatabase(t);
  const web = await webProcess(t, database);
  const ended = once(web.process, 'exit');
  t.equal(await realWorker(t, database), null);
  const db = connect(database.url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  const alive = async () =>
    (await db`select kind from runledger.consumers where ended_at is null`).length;
  t.equal(await alive(), 2);
  await db`update runledger.migrations set sha256 = 'other' where name = 'definitions'`;
  await until(async () => (await alive()) === 0);
  t.equal((await ended)[0], 1);
  const why = /this process ends, and waits where it is started again: the functions and views/;
  t.equal(web.written.filter((line) => why.test(line)).length, 1);
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
