import { randomBytes } from 'node:crypto';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createResults } from '../../src/store/results.ts';
import { idOf, newId, outcome, start, submission, world } from './world.ts';

t.test('reads of one key at once each get their own answer, and each is counted', async (t) => {
  const w = await world(t);
  await w.tier('thirty', 30, 0);
  await w.clock.set(new Date('2026-11-20T12:00:00Z'));
  const mine = await w.key({ tier: 'thirty' });
  const other = await w.key({ tier: 'thirty' });
  const { submit } = w.submissions();
  const submitFor = async ({ digest }: typeof mine) =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const ids = [await submitFor(mine), await submitFor(mine)];
  const not_mine = [await submitFor(other), newId()];
  const results = createResults(w.web);
  const asked = Array.from({ length: 40 }, (_, n) => [...ids, ...not_mine][n % 4]!);
  const answers = await Promise.all(asked.map((id) => results.read(mine.digest, id)));
  // Two of the thirty were spent by the submissions.
  const expected = asked.map((id, n) => {
    if (n >= 28) return { kind: 'rate_limited' };
    const caller = { key_id: mine.id, rate: { limit: 30, remaining: 27 - n } };
    return ids.includes(id)
      ? { kind: 'found', caller, record: { id } }
      : { kind: 'not_found', caller };
  });
  t.match(answers, expected);
  t.match(await results.read(randomBytes(32), ids[0]!), { kind: 'unauthorized' });
});

t.test('reads of one key that wait for each other hold one connection', async (t) => {
  const w = await world(t);
  await w.tier('counted', 1_000, 0);
  const [mine, other] = [await w.key({ tier: 'counted' }), await w.key({ tier: 'counted' })];
  const results = createResults(w.connect(w.database.urls.web, 2));
  let waiting: Promise<unknown>[] = [];
  await w.db.begin(async (tx) => {
    await tx`select from runledger.key_usage where key_id = ${mine.id} for update`;
    waiting = Array.from({ length: 20 }, () => results.read(mine.digest, newId()));
    t.match(await results.read(other.digest, newId()), { kind: 'not_found' });
  });
  t.match(await Promise.all(waiting), new Array(20).fill({ kind: 'not_found' }));
});

t.test('one statement reads many small records, or few large ones', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { executions } = await w.consumer();
  let statements = 0;
  const counted = new Proxy(w.web, {
    apply(db, _self, args: Parameters<Db>) {
      statements += 1;
      return db(...args);
    },
  });
  const read40 = async (stdout: Uint8Array) => {
    const { submit } = w.submissions();
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome({ stdout }) });
    const results = createResults(counted);
    statements = 0;
    const all = await Promise.all(Array.from({ length: 40 }, () => results.read(digest, id)));
    t.match(all, new Array(40).fill({ kind: 'found', record: { id, stdout } }));
    return statements;
  };
  t.equal(await read40(Buffer.from('1\n')), 5, 'one, four, 16, 16 and three records');
  t.equal(await read40(Buffer.alloc(30_000, 'x')), 20, 'one, four, then two at a time, and one');
});
