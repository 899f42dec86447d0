import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { revokeKey } from '../../src/store/keys.ts';
import { createRefusals, type Refused } from '../../src/store/refusals.ts';
import { world } from './world.ts';

const at = new Date('2026-11-20T12:34:56Z');
const fail = (error: unknown) => {
  throw error;
};

async function counted(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const auditor = w.connect(w.database.urls.auditor, 1);
  const rows = () => auditor`
    select hour, error, account, key_id, key_prefix, requests::integer, last_request_id from runledger.audit_refusals
    order by error, requests desc, key_prefix`;
  const count = async (refused: readonly Partial<Refused>[]) => {
    const refusals = createRefusals(w.web, fail, () => at);
    for (const one of refused)
      refusals.count({
        ...{ error: 'unauthorized', key_id: null, digest: null, request_id: 'r' },
        ...one,
      });
    await refusals.close();
  };
  return { w, rows, count };
}

t.test('rejected requests are counted by key, hour and error', async (t) => {
  const { w, rows, count } = await counted(t);
  const key = await w.key({ account: 'acme' });
  const revoked = await w.key({ account: 'gone' });
  await revokeKey(w.db, revoked.id);
  const limited = { error: 'rate_limited', key_id: key.id, digest: key.digest };
  await count([
    ...[{ ...limited }, { ...limited, request_id: 'last' }],
    ...[{}, { digest: Buffer.alloc(32, 0xab) }, { digest: revoked.digest }],
  ]);
  await count([limited]);
  const hour = new Date('2026-11-20T12:00:00Z');
  t.match(await rows(), [
    { hour, error: 'rate_limited', account: 'acme', key_id: key.id, requests: 3 },
    { error: 'unauthorized', key_id: null, key_prefix: 'abababab', requests: 1 },
    { error: 'unauthorized', key_id: null, key_prefix: 'none', requests: 1 },
    { error: 'unauthorized', account: 'gone', key_id: revoked.id, key_prefix: null, requests: 1 },
  ]);
  t.notMatch(JSON.stringify(await w.db`select * from runledger.refusals`), /abababababab/);
});

t.test('strangers do not fill the table', async (t) => {
  const { w, rows, count } = await counted(t);
  const key = await w.key();
  const stranger = (n: number) => {
    const digest = Buffer.alloc(32);
    digest.writeUInt32BE(n + 1);
    return { digest };
  };
  const limited = { error: 'rate_limited', key_id: key.id };
  await count([...Array.from({ length: 5_000 }, (_, n) => stranger(n)), limited]);
  await count(Array.from({ length: 500 }, (_, n) => stranger(10_000 + n)));
  const found = await rows();
  t.equal(found.length, 100 + 2, '100 prefixes, the others together, and the key');
  const others = found.find((row) => row['key_prefix'] === 'others');
  t.equal(others?.['requests'], 5_500 - 100);
  t.match(found[0], { error: 'rate_limited', key_id: key.id, requests: 1 });
  t.equal(
    found.reduce((sum, row) => sum + row['requests'], 0),
    5_501,
  );
});

t.test('strangers do not fill the memory of a web process', async (t) => {
  const sent: unknown[][] = [];
  const db = ((_: TemplateStringsArray, batch: string) => {
    sent.push(JSON.parse(batch));
    return Promise.resolve();
  }) as unknown as Db;
  const refusals = createRefusals(db, fail, () => at);
  for (let n = 0; n < 5_000; n++) {
    const digest = Buffer.alloc(32);
    digest.writeUInt32BE(n + 1);
    refusals.count({ error: 'unauthorized', key_id: null, digest, request_id: 'r' });
  }
  await refusals.close();
  t.equal(sent[0]!.length, 1_001);
});

t.test('counts wait for a database that is away', async (t) => {
  const { w, rows } = await counted(t);
  const nowhere = connect('postgres://x:x@127.0.0.1:1/x', { name: 'test', max: 1 });
  t.teardown(() => nowhere.end({ timeout: 0 }));
  let db = nowhere;
  const proxy = ((...given: [TemplateStringsArray, string]) => db(...given)) as typeof db;
  const refusals = createRefusals(proxy, fail, () => at);
  refusals.count({ error: 'unavailable', key_id: null, digest: null, request_id: 'r1' });
  await refusals.flush();
  db = w.web;
  await refusals.flush();
  await refusals.close();
  t.match(await rows(), [{ error: 'unavailable', requests: 1, last_request_id: 'r1' }]);
});

t.test('old counts are forgotten', async (t) => {
  const { w, rows, count } = await counted(t);
  await count([{}]);
  await w.clock.set(new Date('2027-02-18T12:00:00Z'));
  await w.web`select runledger.forget_refusals()`;
  t.equal((await rows()).length, 1);
  await w.clock.set(new Date('2027-02-18T12:00:01Z'));
  await w.web`select runledger.forget_refusals()`;
  t.equal((await rows()).length, 0);
});
