/** What a person can do who holds the login of web: nothing without a session, and nothing after its end. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { newId } from '../../src/domain/ids.ts';
import { createConsole } from '../../src/store/console.ts';
import { createOperator, createSessions, revokeOperator } from '../../src/store/operators.ts';
import { startService } from '../http/support/service.ts';
import { eventually } from '../support/eventually.ts';

/** A search changes nothing, and a sign-out is the end of the session itself. */
const OTHERS = ['console_search', 'sign_out'];

t.test('the login of web', async (t) => {
  const service = await startService(t, { webs: 1 });
  const web = connect(service.database.urls.web, { name: 'test', max: 1 });
  t.teardown(() => web.end({ timeout: 1 }));
  const store = createConsole(web);

  const keyOf = async (name: string) => {
    const digest = secretDigest(newSecret('rl', 'operator'));
    await createOperator(service.db, { name, key_digest: digest });
    return digest;
  };
  const sessionOf = async (name: string) => {
    const session = randomBytes(32);
    const lasts_s = await createSessions(web).begin(await keyOf(name), session, 'request');
    t.equal(lasts_s, 43_200);
    return { session, request_id: 'request' };
  };
  const typesOf = async (name: string) => {
    const events = await service.db<{ type: string }[]>`
      select e.type from runledger.events e join runledger.operators o on o.id = e.stream
      where o.name = ${name} order by e.version`;
    return events.map(({ type }) => type);
  };

  await t.test('finds nothing in the log with which it could sign in', async (t) => {
    await keyOf('ada');
    const events = await web<{ digest: string | null }[]>`
      select facts ->> 'digest' as digest from runledger.entries where type like 'operator.%'`;
    t.equal(events.length, 1);
    for (const { digest } of events) {
      const found = Buffer.from(digest!, 'hex');
      t.equal(await createSessions(web).begin(found, randomBytes(32), 'request'), null);
    }
    t.equal(await createSessions(web).begin(null as never, randomBytes(32), 'request'), null);
  });

  await t.test('cannot make a session that lasts longer', async (t) => {
    const asking = await sessionOf('grace');
    const [lasts] = await service.db<{ s: number }[]>`
      select extract(epoch from expires_at - now())::integer as s from runledger.operator_sessions where digest = ${asking.session}`;
    t.ok(lasts!.s <= 43_200, String(lasts!.s));
    const [signing] = await service.db<{ arguments: string }[]>`
      select pg_get_function_identity_arguments(oid) as arguments from pg_proc
      where pronamespace = 'runledger'::regnamespace and proname = 'sign_in'`;
    t.notMatch(signing!.arguments, 'interval', 'nobody says how long');
  });

  await t.test('reads no byte without an event that says so', async (t) => {
    const asking = await sessionOf('barbara');
    const { id } = (await service.submit(await service.key())).json;
    for (const from of [1, -1]) {
      const name = `barbara ${from}`.replace(/[^a-z0-9]+/g, '-');
      const { session } = from === 1 ? asking : await sessionOf(name);
      const ask = { id, kind: 'code', from, at_most: 100 };
      t.ok(await store.bytes({ session, request_id: 'request' }, ask));
      t.equal((await typesOf(from === 1 ? 'barbara' : name)).at(-1), 'operator.viewed', `${from}`);
    }
  });

  await t.test(
    'changes and sees nothing after the end of the key, however it waited',
    async (t) => {
      const { id } = (await service.submit(await service.key())).json;
      const late = { account: 'late', tier: 'late', prefix: 'rl' };
      const newDigest = () => ({ secret_digest: secretDigest(newSecret('rl')) });
      const [key] = await service.db<{ id: string }[]>`
      select key_id as id from runledger.submissions where id = ${id}`;
      const [{ pid } = { pid: 0 }] = await web<{ pid: number }[]>`select pg_backend_pid() as pid`;
      // By the name of the function in SQL, without console_.
      const asks = {
        submission: (asking) => store.submission(asking, id),
        bytes: (asking) => store.bytes(asking, { id, kind: 'code', from: 0, at_most: 1 }),
        create_key: (asking) => store.createKey(asking, { id: newId(), ...late, ...newDigest() }),
        rotate_key: (asking) =>
          store.rotateKey(asking, { id: key!.id, seen_version: 1, grace_ms: 0, ...newDigest() }),
        set_tier: (asking) => store.setTier(asking, { name: 'late', per_minute: 1, concurrent: 1 }),
        revoke_key: (asking) => store.revokeKey(asking, key!.id),
        replay: (asking) => store.replay(asking, id, null),
      } satisfies Record<string, (asking: Parameters<typeof store.tiers>[0]) => Promise<unknown>>;
      const changing = await web<{ name: string }[]>`
        select proname as name from pg_proc where pronamespace = 'runledger'::regnamespace
          and provolatile = 'v' and proargnames[1] = 'session' and has_function_privilege(oid, 'execute')`;
      const names = changing.map(({ name }) => name);
      const all = [...Object.keys(asks).map((name) => `console_${name}`), ...OTHERS];
      t.same(names.sort(), all.sort(), 'every function that changes something');
      for (const [sql_name, ask] of Object.entries(asks)) {
        const name = sql_name.replace('_', '-');
        const asking = await sessionOf(name);
        let answer: Promise<unknown> = Promise.resolve();
        let ended = false;
        await service.db.begin(async (tx) => {
          await revokeOperator(tx as unknown as Db, name);
          answer = ask(asking)
            .catch((error) => error)
            .finally(() => {
              ended = true;
            });
          await eventually(async () => ended || (await waits(service.db, pid)));
          t.notOk(ended, `${name} waits for the end of the key`);
        });
        t.match(await answer, { code: 'RL401' }, name);
        t.equal((await typesOf(name)).at(-1), 'operator.revoked', name);
      }
      const [tiers] = await service.db<{ n: number }[]>`
      select count(*)::integer as n from runledger.tiers where name = 'late'`;
      t.equal(tiers!.n, 0);
    },
  );
});

/** Whether the process of the database waits for a lock. */
async function waits(db: Db, pid: number): Promise<boolean> {
  const [row] = await db<{ waiting: boolean }[]>`
    select exists (select from pg_locks where pid = ${pid} and not granted) as waiting`;
  return row!.waiting;
}
