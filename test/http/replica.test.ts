/** A web process with a replica: what is read there, and that no lag, failure or promotion of it makes an answer wrong. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import t from 'tap';
import { replica as lookAtReplica } from '../../src/cli/doctor/replica_checks.ts';
import { loadConfig } from '../../src/config.ts';
import { connect, type Db } from '../../src/db.ts';
import { readPage } from '../../src/store/lists.ts';
import { createReplica, type Replica } from '../../src/store/replica.ts';
import { readRecord } from '../../src/store/results.ts';
import { forgetSubmission } from '../../src/store/retention.ts';
import { NO_FILTER } from '../store/no_filter.ts';
import { seal } from '../store/seal_now.ts';
import { freshDatabase, ownServer } from '../support/database.ts';
import { eventually, until } from '../support/eventually.ts';
import { replicaOf } from '../support/replica.ts';
import { call } from './support/call.ts';
import { startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

const primary = await ownServer(t);
const server = await replicaOf(t, primary, { track_functions: 'all' });
const metrics_port = await freePort();
const envWith = (port: number) => ({
  RUNLEDGER_READ_DATABASE_URL: server.at(primary.urls.web),
  RUNLEDGER_METRICS_PORT: String(port),
});
const service = await startService(t, {
  database: primary,
  webs: 1,
  env: envWith(metrics_port),
});
const web = service.webs[0]!;
const key = await service.key();
/** As a superuser, on the replica. */
const there = open(server.at(primary.superuser_url));
const here = open(primary.superuser_url);
const asWeb = open(primary.urls.web);

function open(url: string): Db {
  const db = connect(url, { name: 'runledger replica test', max: 1 });
  t.teardown(() => db.end({ timeout: 0 }));
  return db;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  return port;
}

async function metric(name: string, port = metrics_port): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const line = page.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length) ?? 0);
}
/** What doctor says of the server at that address. */
async function doctor(url: string | null) {
  const config = loadConfig(url === null ? {} : { RUNLEDGER_READ_DATABASE_URL: url });
  const found = await lookAtReplica.look({ config, database: async () => service.db } as never);
  return found[0]!;
}
const reads = (call: string, outcome: string, port?: number) =>
  metric(`runledger_replica_reads_total{call="${call}",outcome="${outcome}"}`, port);
const isUsed = async () => (await metric('runledger_replica_used')) === 1;
const isUnused = async () => (await metric('runledger_replica_used')) === 0;

/** How often PostgreSQL ran a function on the replica. */
async function runs(name: string): Promise<number> {
  const [row] = await there`
    select coalesce(sum(calls), 0)::integer as calls from pg_stat_user_functions where funcname = ${name}`;
  return row!['calls'];
}

const submit = async () => (await service.submit(key)).json.id as string;
const ended = async () => {
  const id = await submit();
  await service.worker.finish(id);
  return id;
};
const read = async (id: string, query = '') => {
  const { status, json } = await service.call({ path: `/api/result/${id}${query}`, key });
  return { http: status, ...json };
};
const list = async (query: string) =>
  (await service.call({ path: `/api/submissions?${query}`, key })).json;
const hasReplayed = async () => {
  const [now] = await here`select pg_current_wal_flush_lsn()::text as position`;
  return eventually(async () => {
    const [row] = await there`
      select pg_last_wal_replay_lsn() >= ${now!['position']}::text::pg_lsn as replayed`;
    return row!['replayed'];
  });
};
const pause = () => there`select pg_wal_replay_pause()`;
const resume = () => there`select pg_wal_replay_resume()`;

t.test('a result that has ended is read from the replica', async (t) => {
  const id = await ended();
  t.ok(await eventually(isUsed));
  t.ok(await hasReplayed());
  const before = await runs('account_record');
  t.ok(
    await eventually(async () => {
      t.match(await read(id), { http: 200, id, verdict: 'AC', stdout: '42\n' });
      return (await runs('account_record')) > before;
    }),
  );
  t.ok((await reads('result', 'replica')) > 0);
  t.equal((await read(randomUUID())).http, 404);
  const stranger = await service.key();
  t.equal((await service.call({ path: `/api/result/${id}`, key: stranger })).status, 404);
  const similar = key.slice(0, -1) + (key.endsWith('x') ? 'y' : 'x');
  const wrong = await service.call({ path: `/api/result/${id}`, key: similar });
  t.equal(wrong.status, 401, 'the primary knows the keys');
});

t.test('a read finds nothing on a server that lacks the heartbeat which was checked', async (t) => {
  const id = await ended();
  t.ok(await hasReplayed());
  const replica = open(server.at(primary.urls.web));
  const [row] = await here`
    select s.account_id, c.id as consumer_id, (extract(epoch from c.heartbeat_at) * 1000000)::bigint::text as beat_us
    from runledger.submissions s, runledger.consumers c where s.id = ${id} and c.ended_at is null limit 1`;
  const { account_id, consumer_id, beat_us } = row!;
  const query = { ...NO_FILTER, limit: 1 };
  const at = async (of: string, later_us: number) => {
    const beat = { consumer_id: of, beat_us: Number(beat_us) + later_us };
    const [record, page] = [
      await readRecord(replica, account_id, id, beat),
      await readPage(replica, account_id, query, beat),
    ];
    return [record?.id, page?.rows[0]?.id];
  };
  t.same(await at(consumer_id, 0), [id, id]);
  t.same(await at(consumer_id, 3_600_000_000), [undefined, undefined], 'it is behind');
  t.same(await at(randomUUID(), 0), [undefined, undefined], 'it is of others');
});

t.test('doctor says what it sees', async (t) => {
  const replica = server.at(primary.urls.web);
  t.match(await doctor(null), { state: 'ok', found: /^none/ });
  t.ok(await eventually(async () => / has everything$/.test((await doctor(replica)).found)));
  t.match(await doctor(primary.urls.web), { state: 'fail', found: /not in recovery/ });
  const other = await freshDatabase(t);
  t.match(await doctor(other.urls.web), { state: 'fail', found: /of another installation/ });
  const beside = new URL(replica);
  beside.pathname = '/postgres';
  t.match(await doctor(beside.href), { state: 'fail', found: /of another installation/ });
  for (const url of [primary.urls.owner, primary.superuser_url])
    t.match(await doctor(server.at(url)), { state: 'warn', found: /may change everything/ });
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  t.teardown(() => silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as { port: number };
  const mute = new URL(replica);
  mute.host = `127.0.0.1:${port}`;
  t.match(await doctor(mute.href), { state: 'warn', found: /does not answer web's login/ });
  const refusing = new URL(replica);
  refusing.password = 'wrong';
  t.match(await doctor(refusing.href), { state: 'warn', found: /does not answer web's login/ });
});

t.test('a request that may wait does not ask the replica', async (t) => {
  const id = await ended();
  const count = async () =>
    (
      await Promise.all(
        ['replica', 'not_final', 'not_used', 'failed'].map((each) => reads('result', each)),
      )
    ).reduce((sum, each) => sum + each);
  const before = await count();
  t.match(await read(id, '?wait=true'), { http: 200, verdict: 'AC' });
  t.equal(await count(), before);
});

t.test('a page of a list is read from the replica when nothing on it can change', async (t) => {
  const [old, open_one] = [await ended(), await submit()];
  await here`update runledger.submissions set created_at = created_at - interval '2 hours' where id = ${old}`;
  await here`update runledger.submissions set created_at = created_at - interval '1 hour' where id = ${open_one}`;
  t.ok(await hasReplayed());
  const before = (minutes: number) =>
    `to=${encodeURIComponent(new Date(Date.now() - minutes * 60_000).toISOString())}`;
  const settled = await reads('list', 'replica');
  t.ok(
    await eventually(async () => {
      const page = await list(before(90));
      t.same(
        page.submissions.map(({ id }: { id: string }) => id),
        [old],
      );
      return (await reads('list', 'replica')) > settled;
    }),
  );
  t.ok(await eventually(async () => (await runs('list_submissions')) > 0));
  const from_replica = await reads('list', 'replica');
  t.same(
    (await list(before(30))).submissions.map(({ id }: { id: string }) => id),
    [open_one, old],
    'one of them has not ended',
  );
  t.ok((await list('limit=1')).submissions.length === 1, 'the newest may not have arrived');
  t.equal(await reads('list', 'replica'), from_replica, 'the primary answered both');
  await service.worker.finish(open_one);
});

t.test('a replica that lags hides nothing', async (t) => {
  t.teardown(resume);
  // Again until the replica was asked: on a slow machine it may be too old by then.
  const asked = eventually(async () => {
    await resume();
    t.ok(await eventually(isUsed));
    const running = await submit();
    await service.worker.start(running);
    t.ok(await hasReplayed());
    await pause();
    const fresh = await submit();
    await service.worker.finish(running);
    const before = await reads('result', 'not_final');
    t.match(await read(fresh), { http: 200, id: fresh }, 'a 202 is followed by no 404');
    t.match(await read(running), { id: running, verdict: 'AC', attempts: 1 });
    return (await reads('result', 'not_final')) === before + 2;
  });
  t.ok(await asked);
});

t.test('where the log is sealed, an end without its proof is not final', async (t) => {
  t.teardown(resume);
  const port = await freePort();
  const RUNLEDGER_SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
  const sealing = await webProcess(t, primary, { ...envWith(port), RUNLEDGER_SEAL_KEY });
  const readThere = async (id: string) =>
    (await call(sealing.origin, { path: `/api/result/${id}`, key })).json;
  const answered = async () =>
    (await reads('result', 'replica', port)) + (await reads('result', 'not_final', port));
  const isSealed = async (db: Db, id: string) => {
    const [row] = await db`
      select r.proof is not null as is_sealed from runledger.submissions s
      cross join lateral runledger.account_record(s.account_id, s.id, 0) r where s.id = ${id}`;
    return row!['is_sealed'] as boolean;
  };
  let id: string;
  let found: { proof: object | null };
  // Again until the replica has the end without its seal, and was asked.
  const asked = eventually(async () => {
    await resume();
    t.ok(await eventually(async () => (await metric('runledger_replica_used', port)) === 1));
    id = await ended();
    t.ok(await hasReplayed());
    await pause();
    await until(async () => {
      await seal(asWeb);
      return isSealed(here, id);
    });
    const before = await answered();
    found = await readThere(id);
    return (await answered()) > before && !(await isSealed(there, id));
  });
  t.ok(await asked);
  t.match(found!, { verdict: 'AC', proof: { index: Number, checkpoint: Number } });
  await resume();
  t.ok(await hasReplayed());
  const before = await reads('result', 'replica', port);
  const isAnswered = async () => {
    t.same(await readThere(id), found);
    return (await reads('result', 'replica', port)) > before;
  };
  t.ok(await eventually(isAnswered), 'from the replica');
  await sealing.stop();
});

t.test('what was removed is shown by a replica for a time only', async (t) => {
  const forgotten = await ended();
  t.ok(await hasReplayed());
  await pause();
  t.teardown(resume);
  t.match(await forgetSubmission(service.db, forgotten, 'test'), { submissions: 1 });
  t.ok(await eventually(isUnused));
  t.match(await read(forgotten), { http: 200, stdout: '' });
  const said = () => web.written.filter((line) => line.includes('more than 10 s behind'));
  t.ok(await eventually(() => said().length > 0));
  await resume();
  t.ok(await eventually(isUsed));
});

t.test('while the replica hangs, answers come from the primary', async (t) => {
  const id = await ended();
  t.ok(await eventually(isUsed));
  const rows = await there`
    select pid from pg_stat_activity where application_name = 'runledger web replica'`;
  const pids = rows.map(({ pid }) => pid as number);
  t.ok(pids.length > 0);
  const signal = (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const pid of pids) {
      try {
        process.kill(pid, name);
      } catch (error) {
        // Web has replaced the connections by then.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  };
  signal('SIGSTOP');
  t.teardown(() => signal('SIGCONT'));
  t.match(await read(id), { http: 200, id, verdict: 'AC' });
  t.ok(await eventually(isUsed), 'it has other connections by now');
});

t.test(
  'a replica that was killed is missed by nobody, and is used again when it is back',
  async (t) => {
    const id = await ended();
    await server.kill();
    for (let n = 0; n < 20; n += 1) t.match(await read(id), { http: 200, id, verdict: 'AC' });
    t.ok(await eventually(isUnused));
    t.equal((await service.call({ path: '/readyz' })).status, 200);
    t.match(await doctor(server.at(primary.urls.web)), { state: 'warn', found: /ECONNREFUSED/ });
    await server.start();
    t.ok(await eventually(isUsed));
    t.match(await read(id), { http: 200, id, verdict: 'AC' });
  },
);

t.test('a replica without the heartbeat of this process is not used', async (t) => {
  const problems: (string | null)[] = [];
  const replica: Replica = createReplica({
    open: () => connect(server.at(primary.urls.web), { name: 'runledger replica test', max: 1 }),
    primary: service.db,
    consumer_id: () => '00000000-0000-4000-8000-000000000000',
    onAnswer: () => {},
    onChange: (problem) => problems.push(problem),
  });
  t.teardown(() => replica.close());
  const NO_HEARTBEAT = /has no heartbeat of this process.*another installation/;
  t.ok(await eventually(() => problems.some((problem) => NO_HEARTBEAT.test(problem ?? ''))));
  t.equal(await replica.ask('result', async () => 'an answer'), null);
});

t.test('a replica that was promoted is not believed', async (t) => {
  const id = await ended();
  t.ok(await hasReplayed());
  t.ok(await eventually(isUsed));
  await there`select pg_promote()`;
  await there`update runledger.submissions set exit_code = 99 where id = ${id}`;
  for (let n = 0; n < 20; n += 1) t.match(await read(id), { http: 200, exit_code: 0 });
  const noticed = () => web.written.some((line) => line.includes('is not in recovery'));
  t.ok(await eventually(noticed));
  t.ok(await isUnused());
});
