/** verify on several connections: what they see, and what happens to one of them. */
import { createServer, connect as dial } from 'node:net';
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { attempts } from '../../src/store/attempts.ts';
import { inLanes, type Run } from '../../src/store/lanes.ts';
import { Problems } from '../../src/store/problems.ts';
import { sessionSettings } from '../../src/store/verify_session.ts';
import { aloneOnItsServer, freshDatabase, ownServer } from '../support/database.ts';
import { lockWaits } from '../support/lock_waits.ts';

aloneOnItsServer();

type Test = Parameters<typeof ownServer>[0];
type Assertions = Pick<typeof import('tap').default, 'same'>;

async function scene(t: Test) {
  const database = await freshDatabase(t);
  const root = connect(database.superuser_url, { name: 'root', max: 1 });
  const db = connect(database.url, { name: 'lanes', max: 3, unpinned: true });
  t.teardown(() => Promise.all([root, db].map((each) => each.end({ timeout: 1 }))));
  await root.unsafe(THINGS).simple();
  return { database, root, db };
}

const THINGS =
  'create table public.things as select 1 as n; grant select on public.things to public';

/** Gives `work` the process of the first connection, too. `begun`: before there are others. */
async function lanes<T>(
  db: Db,
  work: (run: Run, first: number) => Promise<T>,
  begun = async () => {},
): Promise<T> {
  let first = 0;
  return inLanes(
    db,
    {
      settings: await sessionSettings(db),
      prepare: async () => {},
      begin: async (run) => {
        first = await run(pidOf, fail);
        await begun();
      },
      onGone: () => {},
    },
    (run) => work(run, first),
  );
}

const fail = (error: Error): never => {
  throw error;
};

async function pidOf(db: Db): Promise<number> {
  const [row] = await db<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return row!.pid;
}

type Here = { pid: number; things: number };

async function here(db: Db): Promise<Here> {
  const [row] = await db<Here[]>`
    select pg_backend_pid() as pid, (select count(*)::integer from public.things) as things`;
  return row!;
}

/** Resolves when so many wait for it. */
function meeting(of: number): () => Promise<void> {
  const all = Promise.withResolvers<void>();
  let waiting = 0;
  return () => {
    waiting++;
    if (waiting === of) all.resolve();
    return all.promise;
  };
}

t.test('all connections read one snapshot, whenever they come', async (t) => {
  const { root, db } = await scene(t);
  const held = Promise.withResolvers<void>();
  const has = meeting(3);
  const holding = [1, 2].map(() =>
    db.begin(async (tx) => {
      await tx`select 1`;
      await Promise.all([has(), held.promise]);
    }),
  );
  await has();
  const seen = await lanes(db, async (run, first) => {
    t.same(await run(here, fail), { pid: first, things: 1 });
    await root`insert into public.things values (2)`;
    await root`update public.things set n = 3`;
    held.resolve();
    const meet = meeting(3);
    const work = async (its: Db) => {
      await meet();
      return here(its);
    };
    return Promise.all([run(work, fail), run(work, fail), run(work, fail)]);
  });
  t.equal(new Set(seen.map(({ pid }) => pid)).size, 3);
  t.same(
    seen.map(({ things }) => things),
    [1, 1, 1],
  );
  t.equal((await here(db)).things, 2);
  await Promise.all(holding);
});

/** Works that other connections would take, if there were some. */
const some = (run: Run): Promise<Here[]> =>
  Promise.all(
    Array.from({ length: 5 }, () =>
      run(async (its) => {
        await its`select pg_sleep(0.1)`;
        return here(its);
      }, fail),
    ),
  );

const onlyFirst = (t: Assertions, db: Db, begun?: () => Promise<void>) =>
  lanes(
    db,
    async (run, first) => {
      for (const each of await some(run)) t.same(each, { pid: first, things: 1 });
    },
    begun,
  );

t.test('a snapshot with a transaction among those that had ended is not lent', async (t) => {
  const { database, root, db } = await scene(t);
  const holder = connect(database.superuser_url, { name: 'holder', max: 1 });
  t.teardown(() => holder.end({ timeout: 1 }));
  await holder`begin`;
  await holder`select pg_current_xact_id()`;
  // Its file could say of this one, too, that it runs.
  await root`update public.things set n = 4`;
  await onlyFirst(t, db);
});

t.test('a session in which statements mean something else takes no work', async (t) => {
  const { database, root, db } = await scene(t);
  const [me] = await db<{ name: string }[]>`select quote_ident(current_user) as name`;
  await db.end({ timeout: 1 });
  const fresh = connect(database.url, { name: 'lanes', max: 3, unpinned: true });
  t.teardown(() => fresh.end({ timeout: 1 }));
  // The first connection has it not, so nothing that checks its session finds it.
  await onlyFirst(t, fresh, async () => {
    await root.unsafe(
      `alter role ${me!.name} in database ${database.name} set transform_null_equals = on`,
    );
  });
});

t.test('a pool of one connection does all of it', async (t) => {
  const { database } = await scene(t);
  const db = connect(database.url, { name: 'one', max: 1, unpinned: true });
  t.teardown(() => db.end({ timeout: 1 }));
  await onlyFirst(t, db);
});

t.test('it goes on with one connection where the server has no room for more', async (t) => {
  const { database, root, db } = await scene(t);
  await here(db);
  await root.unsafe(`alter database ${database.name} connection limit 1`);
  await onlyFirst(t, db);
});

t.test('it goes on with one connection where the snapshot cannot be lent', async (t) => {
  const { root, db } = await scene(t);
  await root`revoke execute on function pg_export_snapshot() from public`;
  await onlyFirst(t, db);
  await root`grant execute on function pg_export_snapshot() to public`;
  await root.unsafe(`alter function pg_export_snapshot() rename to exported;
    create function pg_catalog.pg_export_snapshot() returns text language sql
      as $$ select exported() || '''; commit; create table public.mine (); begin; --' $$`);
  await onlyFirst(t, db);
  t.same(await root`select to_regclass('public.mine') as is`, [{ is: null }]);
});

t.test('a snapshot of somebody else is not taken for that of the first connection', async (t) => {
  const { database, root, db } = await scene(t);
  const attacker = connect(database.superuser_url, { name: 'attacker', max: 1 });
  t.teardown(() => attacker.end({ timeout: 1 }));
  await attacker`begin isolation level repeatable read`;
  const [honest] = await attacker<{ id: string }[]>`select pg_export_snapshot() as id`;
  await root`insert into public.things values (2)`;
  await root.unsafe(`alter function pg_export_snapshot() rename to exported;
    create function pg_catalog.pg_export_snapshot() returns text language sql
      as $$ select '${honest!.id}' $$`);
  await lanes(db, async (run) => {
    for (const { things } of await some(run)) t.equal(things, 2);
  });
});

t.test('a balancer that leads to other servers gives it no more connections', async (t) => {
  const [one, other] = [await ownServer(t), await ownServer(t)];
  const roots = [one, other].map(({ superuser_url }) =>
    connect(superuser_url, { name: 'root', max: 1 }),
  );
  for (const root of roots) await root.unsafe(THINGS).simple();
  const ports = [one, other, other].map(({ url }) => Number(new URL(url).port));
  const balancer = createServer((socket) => {
    const to = dial(ports.shift()!, '127.0.0.1');
    for (const end of [socket, to]) end.on('error', () => {});
    socket.pipe(to).pipe(socket);
  }).listen(0, '127.0.0.1');
  await new Promise((listens) => balancer.once('listening', listens));
  const address = new URL(one.url);
  address.port = String((balancer.address() as { port: number }).port);
  const db = connect(address.href, { name: 'lanes', max: 3, unpinned: true });
  t.teardown(async () => {
    await Promise.all([db, ...roots].map((each) => each.end({ timeout: 1 })));
    balancer.close();
  });
  await lanes(db, async (run, first) => {
    // Both have been there, and were refused.
    const refused = () => roots[1]!`
      select from pg_stat_activity where application_name = 'lanes' and query = 'rollback' and state = 'idle'`;
    while ((await refused()).length < 2);
    for (const each of await some(run)) t.same(each, { pid: first, things: 1 });
  });
});

t.test('a session with temporary objects takes no work', async (t) => {
  const { root, db } = await scene(t);
  const meet = meeting(3);
  await Promise.all(
    [1, 2, 3].map(() =>
      db.begin(async (tx) => {
        await tx`create temporary table things (n integer)`;
        await meet();
      }),
    ),
  );
  const [now] = await root<{ at: string }[]>`select clock_timestamp()::text as at`;
  await lanes(db, async (run, first) => {
    let second = 0;
    const ended = () => root`
      select from pg_stat_activity where application_name = 'lanes' and pid <> ${first} and query = 'commit'
        and state = 'idle' and query_start > ${now!.at}::text::timestamptz`;
    await Promise.all([
      run(async () => {
        while (second === 0 && (await ended()).length < 2);
      }, fail),
      run(async (its) => {
        second = (await here(its)).pid;
      }, fail),
    ]);
    t.equal(second, first);
  });
});

t.test('somebody who wants a table for himself waits, and does not stop it', async (t) => {
  const { database, root, db } = await scene(t);
  const other = connect(database.superuser_url, { name: 'other', max: 1 });
  t.teardown(() => other.end({ timeout: 1 }));
  let tries = 0;
  let altering: Promise<unknown> | undefined;
  const problems = new Problems();
  await lanes(db, async (run) => {
    const meet = meeting(2);
    const reads = async (its: Db) => {
      await here(its);
      await meet();
      while ((await lockWaits(root)) < 2);
    };
    const waits = async (its: Db, found: Problems) => {
      found.add('schema', 'found by this work');
      tries++;
      if (tries === 1) {
        await meet();
        altering = Promise.resolve(other`alter table public.things add column more integer`);
        while ((await lockWaits(root)) < 1);
      }
      return (await here(its)).things;
    };
    const [, things] = await Promise.all([
      run(reads, fail),
      attempts(run)('schema', 'it', problems, waits, 0),
    ]);
    t.equal(things, 1);
    t.equal((await run(here, fail)).things, 1, 'and what comes later is read');
  });
  await altering;
  t.equal(tries, 2);
  t.same(problems.lines(), ['found by this work']);
});
