/** Test sets and what is kept of tests: bytes, the rows that derive from them, and deletions that are claimed. */
import type { Db } from '../../src/db.ts';
import { inEvents, type Manipulation, statements } from './manipulation.ts';

/** Appends a deletion as the service does, with any facts, and deletes the bytes. */
const deleteSet = (root: Db, set_id: string, facts: object) =>
  root`select runledger.drop_test_set(${set_id}, ${JSON.stringify(facts)}::text::jsonb)`;

const DAY_MS = 86_400_000;
const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString();

export const testSetManipulations: readonly Manipulation[] = [
  {
    name: 'a byte of an input of a test set is changed',
    does: statements(
      `update runledger.content_pieces set bytes = overlay(bytes placing 'x'::bytea from 1000) where n = 1`,
    ),
    says: /^content [0-9a-f]{64}, of test set f\S+, does not have the bytes of that hash/,
  },
  {
    name: 'the end of an input is moved into another piece',
    does: statements(
      `update runledger.content_pieces set bytes = substr(bytes, 1, 200000) where n = 1;
       update runledger.content_pieces p set bytes = (select substr(o.bytes, 200001) || p.bytes from runledger.content_pieces o
         where o.content_id = p.content_id and o.n = 0) where n = 2`,
    ),
    says: /^content \S+ of test set f\S+, does not have the bytes of that hash/,
  },
  {
    name: 'a piece of an input is removed',
    does: statements('delete from runledger.content_pieces where n = 2'),
    says: /^content \S+ of test set f\S+, does not have the bytes of that hash/,
  },
  {
    name: 'the hash of an input is removed',
    does: statements(
      'alter table runledger.contents alter sha256 drop not null; update runledger.contents set sha256 = null where size = 1',
    ),
    says: /^content \(without a hash\), of test set f\S+, does not have the bytes of that hash/,
  },
  {
    name: 'an input is replaced, with its hash',
    does: statements(
      `update runledger.contents set sha256 = sha256('2'::bytea) where size = 1;
       update runledger.content_pieces p set bytes = '2'::bytea from runledger.contents c where c.id = p.content_id and c.size = 1`,
    ),
    says: /^test set f\S+: its content [0-9a-f]{64} is missing/,
  },
  {
    name: 'an input is replaced, with its hash, and the hash in the manifest',
    does: ({ root }, { set_id }) =>
      root
        .unsafe(
          `update runledger.contents set sha256 = sha256('2'::bytea) where size = 1;
           update runledger.content_pieces p set bytes = '2'::bytea from runledger.contents c where c.id = p.content_id and c.size = 1;
           update runledger.payloads set bytes = convert_to(replace(convert_from(bytes, 'UTF8'),
             encode(sha256('1'::bytea), 'hex'), encode(sha256('2'::bytea), 'hex')), 'UTF8') where stream = '${set_id}';
           update runledger.test_sets t set sha256 = sha256(p.bytes) from runledger.payloads p where p.stream = t.id`,
        )
        .simple(),
    says: /^payloads: f\S+ manifest does not have the bytes that its event names/,
  },
  {
    name: 'a content is added that no test set needs',
    does: statements(
      `insert into runledger.contents values (gen_random_uuid(), sha256('x'::bytea), 1, now(), true);
       insert into runledger.content_pieces select id, 0, 'x' from runledger.contents where sha256 = sha256('x'::bytea)`,
    ),
    says: /^content [0-9a-f]{64} should not be there: no test set needs it/,
  },
  {
    name: 'pieces are added that are of no content',
    does: statements(`insert into runledger.content_pieces values (gen_random_uuid(), 0, 'x')`),
    says: /^content_pieces: \S+ is of no content/,
  },
  {
    name: 'a test set is given to another account',
    does: statements('update runledger.test_sets set account_id = gen_random_uuid()'),
    says: /^test_sets: f\S+ is {"account_id":/,
  },
  {
    name: 'a test set shows another name',
    does: statements(`update runledger.test_sets set summary = summary || '{"name": "other"}'`),
    says: /^test_sets: f\S+ is {"summary":/,
  },
  {
    name: 'a set no longer needs one of its contents',
    does: statements(
      'delete from runledger.test_set_contents where ctid = (select min(ctid) from runledger.test_set_contents)',
    ),
    says: /^test_set_contents: f\S+ \S+ is missing/,
  },
  {
    name: 'the bytes of a test set are deleted, and no event says so',
    does: statements(
      `delete from runledger.payloads where kind = 'manifest'; delete from runledger.test_sets;
       delete from runledger.test_set_contents; delete from runledger.contents; delete from runledger.content_pieces`,
    ),
    says: /^payloads: f\S+ manifest is missing/,
  },
  {
    name: 'the manifest of a deleted test set is there again',
    does: ({ root }, { set_id, deleted_set_id }) =>
      root`insert into runledger.payloads select ${deleted_set_id}::text::uuid, kind, salt, bytes from runledger.payloads where stream = ${set_id}`,
    says: /^payloads: f\S+ manifest is there, and its test set was deleted/,
  },
  {
    name: 'a deletion is claimed of a test set that was unused, and it was used',
    does: ({ root }, { set_id }) =>
      deleteSet(root, set_id, { operator: 'ada@console', unused_since: daysAgo(30) }),
    says: /^test set f\S+ was deleted at \S+ because nothing had used it since \S+, and submission \S+ had/,
  },
  {
    name: 'the same, and the deletion is dated to before the use',
    does: async ({ root }, { set_id }) => {
      await deleteSet(root, set_id, { operator: 'ada@console', unused_since: daysAgo(30) });
      await inEvents(
        root,
        `update runledger.events set at = now() - interval '1 day' where stream = '${set_id}' and version = 2`,
      );
    },
    says: /^test set f\S+ was deleted at \S+ because nothing had used it since \S+, and submission \S+ had/,
  },
  {
    name: 'a deletion is claimed of a test set that is younger than the time since when it was unused',
    does: async ({ root }, { set_id }) => {
      const [unused] = await root<{ id: string }[]>`
        select id from runledger.test_sets where id <> ${set_id}`;
      await deleteSet(root, unused!.id, { operator: 'ada@console', unused_since: daysAgo(120) });
    },
    says: /^test set f\S+ was deleted at \S+ because nothing had used it since \S+, and it was created later/,
  },
  {
    name: 'a deletion is claimed that the auditor does not allow',
    does: ({ root }, { set_id }) =>
      deleteSet(root, set_id, { operator: 'ada@console', unused_since: daysAgo(1) }),
    says: /^the log claims a removal that the policy does not allow: test set f\S+ deleted/,
  },
  {
    name: 'a deletion is claimed of nobody, for no reason',
    does: ({ root }, { set_id }) => deleteSet(root, set_id, { operator: 'ada@console' }),
    says: /^test set f\S+ was deleted at \S+ by no key, and not because it was unused/,
  },
  {
    name: 'a deletion is claimed of a key of another account',
    does: ({ root }, { set_id, ids }) => deleteSet(root, set_id, { key_id: ids[0] }),
    says: /^test set f\S+ was deleted by a key of another account/,
  },
  {
    name: 'a deletion is claimed of a key of the account',
    does: ({ root }, { set_id, key_id }) => deleteSet(root, set_id, { key_id }),
    says: /nothing/,
    cannot: 'an account may delete its test sets, and what was appended may be untrue',
  },
  {
    name: 'the verdict of a test is changed in the row that the API reads',
    does: ({ root }, { judged_id }) =>
      root`update runledger.submissions set tests = jsonb_set(tests, '{1,verdict}', '"AC"') where id = ${judged_id}`,
    says: /^submissions: \S+ is {"tests":/,
  },
  {
    name: 'the message of a checker is changed',
    does: ({ root }, { judged_id }) =>
      root`update runledger.payloads set bytes = convert_to(replace(convert_from(bytes, 'UTF8'), 'wrong', 'right'), 'UTF8')
        where stream = ${judged_id} and kind = 'tests'`,
    says: /^payloads: \S+ tests does not have the bytes that its event names/,
  },
];
