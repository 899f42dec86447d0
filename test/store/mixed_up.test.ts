/**
 * Requests of many accounts share statements. Rows that are not the answer to what was asked, as a faulty driver or a function that
 * somebody replaced may give, reach nobody.
 */
import t from 'tap';
import { type Db, isAway, mixedUp } from '../../src/db.ts';
import { createResults } from '../../src/store/results.ts';
import { idOf, outcome, start, submission, world } from './world.ts';

const MIXED = { code: 'ANSWER_MIXED_UP' };

/** As somebody could who owns the database. */
async function replace(db: Db, name: string, body: string): Promise<void> {
  const [found] = await db<{ given: string; answer: string }[]>`
    select pg_get_function_arguments(oid) as given, pg_get_function_result(oid) as answer from pg_proc
    where proname = ${name} and pronamespace = 'runledger'::regnamespace`;
  await db.unsafe(`
    create or replace function runledger.${name}(${found!.given}) returns ${found!.answer}
    language sql security definer set search_path = runledger, pg_temp as $$ ${body} $$`);
}

t.test('after an answer that is mixed up, nothing is known of the statement', async (t) => {
  t.ok(isAway(mixedUp('a read')));
});

t.test('a record of another account, or another one than was asked', async (t) => {
  const w = await world(t);
  const mine = await w.key({ account: 'mine' });
  const other = await w.key({ account: 'other' });
  const { submit } = w.submissions();
  const submitFor = async ({ digest }: typeof mine) =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const [id, second, foreign] = [
    await submitFor(mine),
    await submitFor(mine),
    await submitFor(other),
  ];
  const honest = createResults(w.web);
  const accountOf = async (key: typeof mine) => {
    const spent = await honest.spend(key.digest);
    return spent.kind === 'spent' ? spent.caller.account_id : '';
  };
  t.match(await honest.record(await accountOf(mine), id), { id });
  await t.rejects(honest.record(await accountOf(other), id), MIXED, 'the record has another owner');

  // Whatever is asked, the answer is one record.
  await w.db`create table runledger.instead (asked uuid)`;
  await replace(
    w.db,
    'read_results',
    `select 'found', m.account_id, m.key_id, m.rate_limit, m.rate_remaining, m.rate_reset_us,
      r.record, r.stdout, r.stderr, r.judged, r.large, r.progress, null::jsonb
    from spend(digest) m, records_of(array(select asked from instead)) r`,
  );
  for (const instead of [foreign, second]) {
    await w.db`delete from runledger.instead`;
    await w.db`insert into runledger.instead values (${instead})`;
    const results = createResults(w.web);
    await t.rejects(results.read(mine.digest, id), MIXED, 'alone');
    const reads = Array.from({ length: 6 }, () => results.read(mine.digest, id));
    const rejected = { status: 'rejected', reason: MIXED };
    t.match(await Promise.allSettled(reads), new Array(6).fill(rejected), 'and beside others');
  }
  t.match(await createResults(w.web).read(mine.digest, second), { record: { id: second } });
});

t.test('too few rows', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
  const caller = 'null::uuid, null::uuid, 1, 1, 1::bigint';
  await replace(
    w.db,
    'read_results',
    `select '', ${caller}, null::jsonb, null::bytea, null::bytea, null::bytea[], 1::bigint, null::jsonb, null::jsonb where false`,
  );
  await replace(w.db, 'submit_many', `select 1, '', null::uuid, ${caller}, false where false`);
  await t.rejects(createResults(w.web).read(digest, id), MIXED);
  await t.rejects(submit({ secret_digest: digest, submission: submission() }), MIXED);
});

t.test('requests of many keys', async (t) => {
  const w = await world(t);
  const digests = [await w.key(), await w.key(), await w.key()].map(({ digest }) => digest);
  const spendAll = () => {
    const results = createResults(w.web);
    return Promise.allSettled(digests.map((digest) => results.spend(digest)));
  };
  t.match(await spendAll(), new Array(3).fill({ value: { kind: 'spent' } }));
  for (const [why, outcome, spent] of [
    ['none was spent', 'spent', 0],
    ['more were spent than there are', 'spent', 2],
    ['all were spent, and one was not', 'rate_limited', 1],
    ['some were spent of a key that is not there', 'unauthorized', 1],
  ] as const) {
    await replace(
      w.db,
      'spend_many',
      `select '${outcome}', k.account_id, k.key_id, 1, 1, 1::bigint, ${spent} from find_key(digest, clock()) k`,
    );
    t.match(await spendAll(), new Array(3).fill({ status: 'rejected', reason: MIXED }), why);
  }
});

t.test('no word of the ends', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
  const { executions } = await w.consumer();
  await start(executions, id);
  await replace(w.db, 'complete_many', 'select null::integer[]');
  const ended = executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  await t.rejects(ended, MIXED, 'it does not count as stored');
});
