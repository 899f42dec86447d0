import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import {
  type AddressInfo,
  createServer,
  connect as dial,
  type ListenOptions,
  Socket,
} from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { databaseAddress } from '../src/config/database_tls.ts';
import { bytesArgument, connect, type Db, inThisTurn, isAway, listen } from '../src/db.ts';
import { createLog } from '../src/log.ts';
import { connectRunner } from '../src/queue/delivery_runner.ts';
import { freshDatabase } from './support/database.ts';

const log = createLog({ level: 'fatal', process: 'test', to: 'stderr' });

t.test('arrays survive the way to the database and back', async (t) => {
  const { urls } = await freshDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const words = ['plain', '', 'a "quoted" one', 'back\\slash', '{a,b}', 'NULL', 'line\nline', 'ü'];
  const id = '01890000-0000-7000-8000-000000000000';
  const [row] = await db`select ${words}::text[] as words, ${[1, -2]}::integer[] as numbers,
    ${[id]}::uuid[] as ids, array['2026-01-02T03:04:05.678Z'::timestamptz] as times, array[true, false] as flags,
    '{}'::text[] as none, array[null, 'x'] as some, array['\\x00ff'::bytea] as bytes,
    (${words}::text[])[5] as fifth, cardinality(${words}::text[]) as count`;
  t.same(row, {
    ...{ words, numbers: [1, -2], ids: [id], none: [], some: [null, 'x'] },
    ...{ times: [new Date('2026-01-02T03:04:05.678Z')], flags: [true, false] },
    ...{ bytes: [Buffer.from([0, 255])], fifth: words[4], count: words.length },
  });
});

t.test(
  'a statement with padded JSON is sent in the turn of the event loop it was made in',
  async (t) => {
    const { urls } = await freshDatabase(t);
    const db = connect(urls.owner, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    const ask = (json: string) => db`select ${json}::text::jsonb as value`;
    const { write } = Socket.prototype;
    t.teardown(() => {
      Socket.prototype.write = write;
    });
    let writes = 0;
    Socket.prototype.write = function (...given: unknown[]) {
      writes += 1;
      return Reflect.apply(write, this, given);
    };
    /** From the end of a turn, like a batch that was gathered in it. */
    const isSentAtOnce = (json: string) =>
      new Promise<boolean>((resolve) =>
        setImmediate(async () => {
          const before = writes;
          const answer = ask(json).execute();
          for (let n = 0; n < 20; n += 1) await null;
          const is_sent = writes > before;
          t.same(await answer, [{ value: JSON.parse(json) }]);
          resolve(is_sent);
        }),
      );
    const json = JSON.stringify({ a: 'b', c: [1] });
    // The first statement has to be prepared.
    await ask(json);
    t.equal(await isSentAtOnce(inThisTurn(json)), true);
    t.equal(await isSentAtOnce(json), false, 'else the library keeps it for the next turn');
  },
);

t.test('a connection without work closes, and the next statement opens one', async (t) => {
  const { urls } = await freshDatabase(t);
  const [db, other] = [{ idle_s: 0.05 }, {}].map((more) =>
    connect(urls.owner, { name: 'test', max: 1, ...more }),
  ) as [Db, Db];
  t.teardown(() => Promise.all([db, other].map((each) => each.end({ timeout: 1 }))));
  const ask = async (of: Db) => {
    const [row] = await of<{ pid: number }[]>`select pg_backend_pid() as pid`;
    return row!.pid;
  };
  const [first, kept] = [await ask(db), await ask(other)];
  const isOpen = async () =>
    (await other`select from pg_stat_activity where pid = ${first}`).length > 0;
  while (await isOpen()) await wait(20);
  t.not(await ask(db), first);
  t.equal(await ask(other), kept, 'one that may stay open');
});

t.test('lists of bytes arrive as they were sent, few or many', async (t) => {
  const { urls } = await freshDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const all = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  const none = Buffer.alloc(0);
  const lists = [
    [],
    [null],
    [all, null, none, all],
    [none, Buffer.alloc(2_001), null, all, none],
    [Buffer.alloc(100_000, all), null, all],
  ];
  for (const list of lists) {
    const [row] = await db`select ${bytesArgument(db, list)} as bytes`;
    t.same(row!['bytes'], list);
  }
});

t.test('settings of a role or a database do not change what is read', async (t) => {
  const { urls, superuser_url } = await freshDatabase(t);
  const root = connect(superuser_url, { name: 'administrator', max: 1 });
  t.teardown(() => root.end({ timeout: 1 }));
  const [{ name } = { name: '' }] = await root<
    { name: string }[]
  >`select current_database() as name`;
  for (const setting of [
    'bytea_output = escape',
    'extra_float_digits = -15',
    `datestyle = 'SQL, DMY'`,
    `timezone = 'UTC+100'`,
    'transform_null_equals = on',
    'array_nulls = off',
    'standard_conforming_strings = off',
    'default_transaction_read_only = on',
    'search_path = shadow, pg_catalog',
  ])
    await root.unsafe(`alter database ${name} set ${setting}`);
  // It takes this very type, and the server's own any: where both are looked for, this one is called.
  await root
    .unsafe(`create schema if not exists public; grant usage on schema public to public;
      create function public.to_jsonb(timestamptz) returns jsonb language sql as $$ select '0'::jsonb $$`)
    .simple();
  const query = `select 'print(1)'::bytea as code, 0.1::float8 + 0.2 as score, timestamptz '2026-02-01 10:00:00+00' as at,
      (null = null) is null as none, array_length('{NULL}'::text[], 1) as one, to_jsonb(timestamptz '2026-02-01 10:00:00+00') as json`;
  const pinned = connect(urls.worker, { name: 'test', max: 1 });
  const pool = connectRunner(urls.worker, 'test', log, 1);
  t.teardown(() => Promise.all([pinned.end({ timeout: 1 }), pool.end()]));
  const right = {
    ...{ code: Buffer.from('print(1)'), score: 0.1 + 0.2, at: new Date('2026-02-01T10:00:00Z') },
    ...{ none: true, one: 1, json: '2026-02-01T10:00:00+00:00' },
  };
  t.same([...(await pinned.unsafe(query)), ...(await pool.query(query)).rows], [right, right]);
  const db = connect(urls.worker, { name: 'test', max: 1, unpinned: true });
  t.teardown(() => db.end({ timeout: 1 }));
  for (const value of [`'print(1)'::bytea`, `array['x'::bytea]`])
    await t.rejects(db.unsafe(`select ${value} as bytes`), /printed bytes that are not hex/);
  await t.rejects(db`select now() as at`, /printed a time that is not ISO/);
  t.same(await db`select 1 as one`, [{ one: 1 }], 'the connection goes on');
});

t.test('items of an array may be as large as the record of a judged submission', async (t) => {
  const { urls } = await freshDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const MiB = 2 ** 20;
  const [row] = await db<{ bytes: Buffer[]; words: string[] }[]>`
    select array[convert_to(repeat('x', ${16 * MiB}), 'UTF8'), 'y'::bytea] as bytes,
      array[repeat('a "', 100000), repeat('b ', ${4 * MiB})] as words`;
  t.same(
    row!.bytes.map(({ length }) => length),
    [16 * MiB, 1],
  );
  t.ok(row!.bytes[0]!.equals(Buffer.alloc(16 * MiB, 'x')));
  t.ok(row!.words[0] === 'a "'.repeat(100_000));
  t.ok(row!.words[1] === 'b '.repeat(4 * MiB));
});

t.test('a server that takes a connection and is silent is away for a runner, too', async (t) => {
  const held = new Set<Socket>();
  const silent = createServer((socket) => void held.add(socket)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => {
    for (const socket of held) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const runner = connectRunner(`postgres://x:y@127.0.0.1:${port}/x`, 'test', log, 1);
  t.teardown(() => runner.end());
  const failed = await runner.query('select 1').catch((error: Error) => error);
  t.ok(isAway(failed), String(failed));
  t.notOk(isAway(new Error('the Connection terminated as it should')));
});

/** Leads what connects there to the database. */
async function leadFrom(t: Test, where: ListenOptions, url: string): Promise<AddressInfo> {
  const server = new URL(url);
  const open = new Set<Socket>();
  const door = createServer((client) => {
    const behind = dial(Number(server.port), server.hostname);
    client.pipe(behind).pipe(client);
    for (const each of [client, behind]) {
      open.add(each);
      each.on('error', () => {});
    }
  });
  door.listen(where);
  await once(door, 'listening');
  t.teardown(() => {
    for (const each of open) each.destroy();
    door.close();
  });
  return door.address() as AddressInfo;
}

const unlessItWaits = <T>(work: Promise<T>): Promise<T> =>
  Promise.race([
    work,
    wait(60_000, null, { ref: false }).then(() => Promise.reject(new Error('it waits'))),
  ]);

t.test('an address may be a folder of a socket, or of IPv6', async (t) => {
  const { name, urls } = await freshDatabase(t);
  // The path of a socket has at most 107 bytes.
  const folder = await mkdtemp(join(tmpdir(), 'runledger-socket-'));
  t.teardown(() => rm(folder, { recursive: true }));
  for (const port of [5432, 5433])
    await leadFrom(t, { path: join(folder, `.s.PGSQL.${port}`) }, urls.owner);
  const encoded = encodeURIComponent(folder);
  const hosts = [encoded, encoded.replaceAll('%2F', '%2f'), `${encoded}:5433`];
  if (await hasIPv6())
    hosts.push(`[::1]:${(await leadFrom(t, { host: '::1', port: 0 }, urls.owner)).port}`);
  const { username, password } = new URL(urls.owner);
  for (const host of hosts) {
    const url = `postgres://${username}:${password}@${host}/${name}`;
    const asked = async (of: Db) => (await of`select current_database() as name`)[0]!['name'];
    const db = connect(url, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 0 }));
    t.equal(await unlessItWaits(asked(db)), name, host);
    const listening = listen(db, {}, { onFault: (error) => t.fail(String(error)) });
    t.teardown(() => listening.close());
    t.equal(await unlessItWaits(asked(listening.db)), name, `${host}, the one that listens`);
    const runner = connectRunner(url, 'test', log, 1);
    t.teardown(() => runner.end());
    const { rows } = await runner.query('select current_database() as name');
    t.equal(rows[0].name, name, `${host}, the runner`);
  }
});

t.test('the name of a database may be encoded in an address', async (t) => {
  const { urls, superuser_url } = await freshDatabase(t);
  const admin = connect(superuser_url, { name: 'test', max: 1 });
  const name = `runledger 100% a/b ü@${process.pid}`;
  await admin`create database ${admin(name)}`;
  t.teardown(async () => {
    await admin`drop database ${admin(name)} with (force)`;
    await admin.end();
  });
  const url = new URL(urls.owner);
  url.pathname = `/${encodeURIComponent(name)}`;
  const address = databaseAddress({ database_tls: 'disable', database_ca_file: null }, url.href);
  const db = connect(address, { name: 'test', max: 1 });
  t.same([...(await db`select current_database() as name`)], [{ name }]);
  await db.end();
  const runner = connectRunner(address, 'test', log, 1);
  const { rows } = await runner.query('select current_database() as name');
  t.same(rows, [{ name }]);
  await runner.end();
});

async function hasIPv6(): Promise<boolean> {
  const server = createServer().listen(0, '::1');
  try {
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

t.test('what listens on a secret channel has no statement with its name', async (t) => {
  const { urls } = await freshDatabase(t);
  const open = (name: string) => {
    const db = connect(urls.web, { name, max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    return db;
  };
  const channel = `runledger_${'0123456789abcdef'.repeat(2)}`;
  const [hearing, heard] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  // The only channel: of a session, the last statement is shown, and another channel's would come behind it.
  const listening = listen(
    open('listens'),
    {},
    {
      onFault: (error) => t.fail(String(error)),
      onHearing: hearing.resolve,
      secret: { [channel]: heard.resolve },
    },
  );
  t.teardown(() => listening.close());
  await hearing.promise;
  // A session of the same role, as another process has it.
  const other = open('test');
  const shown = await other<{ query: string }[]>`
    select query from pg_stat_activity where application_name = 'listens' and datname = current_database()`;
  t.equal(shown.length, 1);
  t.match(shown[0]!.query, /hear\(/);
  t.notMatch(shown[0]!.query, channel);
  await other`select pg_notify(${channel}, 'hello')`;
  t.equal(await heard.promise, 'hello');
});

t.test('an address that no network leads to is as a server that is away', async (t) => {
  for (const tls of [false, { rejectUnauthorized: false }] as const) {
    // No TCP connection to it can even begin.
    const db = connect({ url: 'postgres://x:y@255.255.255.255/x', tls }, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 0 }));
    for (const what of ['the statement fails', 'so does the next one']) {
      const failed = await db`select 1`.catch((error: Error) => error);
      t.ok(isAway(failed), `${what}: ${failed}`);
    }
  }
});

/** A process asks while it can open no socket, and again when it can. */
const NO_FILES = `
  import { closeSync, openSync } from 'node:fs';
  import { connect } from './src/db.ts';
  const db = connect(process.env.TEST_URL, { name: 'test', max: 1 });
  const open = [];
  const fill = () => {
    try {
      for (;;) open.push(openSync('/dev/null'));
    } catch {}
  };
  // What Node read at its start is closed a little later, and would leave room for a socket.
  await new Promise((wake) => setTimeout(wake, 200));
  fill();
  const filling = setInterval(fill, 1);
  const failed = [];
  for (let n = 0; n < 2; n += 1) await db.unsafe('select').catch(({ code }) => failed.push(code));
  clearInterval(filling);
  for (const each of open) closeSync(each);
  const [row] = await db.unsafe('select 7 as later');
  console.log(JSON.stringify({ failed, ...row }));
  await db.end();
`;

t.test('what could not be sent at once is not sent later', async (t) => {
  const { urls } = await freshDatabase(t);
  const run = ['-c', 'ulimit -n 64 && exec "$@"', 'sh', process.execPath];
  const { stdout } = await promisify(execFile)(
    'sh',
    [...run, '--input-type=module', '-e', NO_FILES],
    { env: { ...process.env, TEST_URL: urls.owner }, cwd: join(import.meta.dirname, '..') },
  );
  t.same(JSON.parse(stdout), { failed: ['EMFILE', 'EMFILE'], later: 7 });
});

t.test('a proxy without a server behind it is as a server that is away', async (t) => {
  const { urls } = await freshDatabase(t);
  const server = new URL(urls.owner);
  let has_server = false;
  let connections = 0;
  const open = new Set<Socket>();
  const proxy = createServer((client) => {
    connections += 1;
    if (!has_server) return void client.end();
    const behind = dial(Number(server.port), server.hostname);
    client.pipe(behind).pipe(client);
    for (const each of [client, behind]) {
      open.add(each);
      each.on('error', () => {});
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    for (const each of open) each.destroy();
    proxy.close();
  });
  const through = new URL(urls.owner);
  through.port = String((proxy.address() as AddressInfo).port);
  for (const tls of [false, { rejectUnauthorized: false }] as const) {
    const db = connect({ url: through.href, tls }, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 0 }));
    connections = 0;
    const late = wait(120_000, new Error('it waits'), { ref: false });
    const asked = db`select 1`.then(() => null);
    const failed = await Promise.race([asked.catch((error: Error) => error), late]);
    t.ok(isAway(failed), `the statement fails: ${failed}`);
    t.ok(connections < 5, `there is a pause between two tries: ${connections} connections`);
    const runner = connectRunner({ url: through.href, tls }, 'test', log, 1);
    t.teardown(() => runner.end());
    const unasked = await runner.query('select 1').catch((error: Error) => error);
    t.ok(isAway(unasked), `so does that of a runner: ${unasked}`);
  }
  has_server = true;
  const db = connect(through.href, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  t.same(await db`select 1 as one`, [{ one: 1 }]);
  has_server = false;
  for (const each of open) each.destroy();
  await t.rejects(db`select 1`);
  await t.rejects(db`select 1`);
  has_server = true;
  const again = async (): Promise<unknown> => db`select 2 as two`.catch(() => wait(50).then(again));
  t.same(await again(), [{ two: 2 }], 'the connection is made again');
});
