/** Values of jsonb that print as the honest ones, and are read as others: see jsonb_bytes.ts. */

import { arrayOf, mapFields, withCasts, withoutDecimals, wrapped } from './jsonb_bytes.ts';
import type { Ledger } from './ledger.ts';
import { inEvents, type Manipulation } from './manipulation.ts';

const inFacts =
  (
    find: (ledger: Ledger) => string,
    change: (facts: Buffer) => Buffer,
    then = '',
  ): Manipulation['does'] =>
  ({ root }, ledger) =>
    withCasts(root, async () => {
      const [row] = await root.unsafe<
        { facts: Buffer; printed: string; stream: string; version: number }[]
      >(
        `select facts::bytea as facts, facts::text as printed, stream, version from runledger.events where ${find(ledger)} limit 1`,
      );
      const { facts, printed, stream, version } = row!;
      const changed = change(facts);
      const [same] = await root<
        { yes: boolean }[]
      >`select (${changed}::bytea::jsonb)::text = ${printed} as yes`;
      if (!same!.yes) throw new Error('it must print as before');
      await inEvents(
        root,
        `update runledger.events set facts = '\\x${changed.toString('hex')}'::bytea::jsonb
         where stream = '${stream}' and version = ${version}`,
      );
      await root.unsafe(then.replaceAll('STREAM', stream)).simple();
    });

const wrap = (names: readonly string[]) => (facts: Buffer) =>
  mapFields(facts, ({ key, value }) => (names.includes(key) ? wrapped(value) : value));

const NOT_PRINTED = (table: string, column: string) =>
  new RegExp(`^1 rows of ${table} have a value in ${column} that is not the one that it prints$`);
const FACTS = NOT_PRINTED('events', 'facts');

const FOLDED = `
  create temp table folded as select * from runledger.fold_submissions(array['STREAM'::uuid]);
  delete from runledger.submissions where id = 'STREAM';
  insert into runledger.submissions select * from folded; drop table folded`;

export const jsonbManipulations: readonly Manipulation[] = [
  {
    name: 'facts print as before, and the fold reads no verdict',
    does: inFacts(
      ({ ids }) => `stream = '${ids[8]}' and type = 'submission.completed'`,
      wrap(['verdict']),
      FOLDED,
    ),
    says: FACTS,
  },
  {
    name: 'facts print as before, and a null is read as a text',
    does: inFacts(
      ({ ids }) => `stream = '${ids[8]}' and type = 'submission.completed'`,
      wrap(['signal', 'limit_exceeded']),
      FOLDED,
    ),
    says: FACTS,
  },
  {
    name: 'facts print as before, and a key has another tier',
    does: inFacts(
      ({ key_id }) => `stream = '${key_id}' and type = 'key.created'`,
      wrap(['tier']),
      `update runledger.keys set tier = (select tier from runledger.keys_from_log where id = 'STREAM') where id = 'STREAM'`,
    ),
    says: FACTS,
  },
  {
    name: 'facts of a purge print as before, and are a scalar',
    does: inFacts(
      () => `type = 'payloads.purged'`,
      (facts) => wrapped({ type: 0x5000_0000, data: facts }).data,
    ),
    says: FACTS,
  },
  {
    name: 'a score of a test is equal, and prints without its decimals',
    does: ({ root }, { judged_id }) =>
      withCasts(root, async () => {
        const tests = await root<{ test: Buffer }[]>`
          select each.test::bytea as test from runledger.submissions s, jsonb_array_elements(s.tests) with ordinality each(test, n)
          where s.id = ${judged_id} order by each.n`;
        const changed = arrayOf(
          tests.map(({ test }) =>
            mapFields(test, ({ key, value }) => (key === 'score' ? withoutDecimals(value) : value)),
          ),
        );
        await root`update runledger.submissions set tests = ${changed}::bytea::jsonb where id = ${judged_id}`;
      }),
    says: NOT_PRINTED('submissions', 'tests'),
  },
];
