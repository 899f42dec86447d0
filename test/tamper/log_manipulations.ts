/** Events, their order, bytes, and what is derived from the log. */
import { inEvents, type Manipulation } from './manipulation.ts';

const EVERY_TABLE = `select tableoid::regclass::text`;

export const logManipulations: readonly Manipulation[] = [
  {
    name: 'a verdict is changed in an event and in its row',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"') where stream = '${ids[1]}' and type = 'submission.completed';
         update runledger.submissions set verdict = 'WA' where id = '${ids[1]}'`,
      ),
    says: /^changed event: \S+ version 3 \(submission.completed\)/,
  },
  {
    name: 'an event gets another time, by a microsecond',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set at = at + interval '1 microsecond' where stream = '${ids[2]}' and version = 2`,
      ),
    says: /^changed event: \S+ version 2 \(execution.started\)/,
  },
  {
    name: 'an event gets another type',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set type = 'submission.failed' where stream = '${ids[0]}' and type = 'submission.completed'`,
      ),
    says: /^changed event: /,
  },
  {
    name: 'an event gets another schema number',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set schema = 1 where stream = '${ids[0]}' and type = 'execution.started'`,
      ),
    says: /^changed event: /,
  },
  {
    name: 'two submissions exchange their events',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set version = version + 100 where stream = '${ids[0]}';
         update runledger.events set stream = '${ids[0]}' where stream = '${ids[2]}';
         update runledger.events set stream = '${ids[2]}', version = version - 100 where stream = '${ids[0]}' and version > 100`,
      ),
    says: /^changed event: /,
  },
  {
    name: 'the last event of a submission is removed',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `delete from runledger.events where stream = '${ids[3]}' and type = 'submission.completed'`,
      ),
    says: /^removed event: \S+ version 3/,
  },
  {
    name: 'a submission is removed, with everything about it',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `delete from runledger.events where stream = '${ids[3]}'; delete from runledger.submissions where id = '${ids[3]}';
         delete from runledger.payloads where stream = '${ids[3]}'`,
      ),
    says: /^removed event: \S+ version 1/,
  },
  {
    name: 'the sealed tail of the log is removed',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `delete from runledger.events where stream >= '${ids[9]}' and stream < 'f0000000-0000-0000-0000-000000000000';
         delete from runledger.submissions where id >= '${ids[9]}'; delete from runledger.payloads where stream >= '${ids[9]}'`,
      ),
    says: /^removed event: /,
  },
  {
    name: 'an event is inserted behind the seals',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `insert into runledger.events (stream, version, type, schema, at, generation, xid, facts)
         select stream, 4, 'execution.refused', 2, at, generation, xid,
           '{"attempt": 1, "consumer": "d5878fba-2e0c-4f31-a614-7160c2c48760", "verdict": "AC"}'
         from runledger.events where stream = '${ids[0]}' and version = 3`,
      ),
    says: /^inserted event: \S+ version 4/,
  },
  {
    name: 'a whole submission is inserted behind the seals',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `insert into runledger.events (stream, version, type, schema, at, generation, xid, seq, facts)
         select overlay(stream::text placing '0000' from 15)::uuid, version, type, schema, at, generation, xid, seq + 1000000, facts
         from runledger.events where stream = '${ids[0]}'`,
      ),
    says: /^inserted event: /,
  },
  {
    name: 'two events exchange their places in the feed',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `with two as (select stream, version, xid, seq from runledger.events where stream in ('${ids[0]}', '${ids[2]}') and version = 1)
         update runledger.events e set xid = o.xid, seq = o.seq from two o
         where e.stream in ('${ids[0]}', '${ids[2]}') and e.version = 1 and o.stream <> e.stream`,
      ),
    says: /^changed event: /,
  },
  {
    name: 'an event is hidden from the index of the feed',
    does: async ({ root }, { unsealed_id }) => {
      const [part] = await root.unsafe<{ name: string }[]>(
        `${EVERY_TABLE} as name from runledger.events where stream = '${unsealed_id}' limit 1`,
      );
      const off = (value: boolean) => root`
        update pg_index set indisready = ${value}, indislive = ${value}
        from pg_class c where c.oid = indexrelid and c.relname like '%_generation_xid_seq_idx' and indrelid = ${part!.name}::text::regclass`;
      await off(false);
      await inEvents(
        root,
        `insert into runledger.events (stream, version, type, schema, at, generation, facts)
         select stream, 4, 'execution.refused', 2, at, generation,
           '{"attempt": 1, "consumer": "d5878fba-2e0c-4f31-a614-7160c2c48760", "verdict": "AC"}'
         from runledger.events where stream = '${unsealed_id}' and version = 3`,
      );
      await off(true);
    },
    says: /^the tables hold \d+ events, and their index of the feed gives \d+/,
  },
  {
    name: 'an unsealed event gets facts that its type does not have',
    does: ({ root }, { unsealed_id }) =>
      inEvents(
        root,
        `update runledger.events set facts = facts || '{"paid": true}' where stream = '${unsealed_id}' and version = 1`,
      ),
    says: /^the facts of \S+ version 1 \(submission.accepted\) are not of their schema/,
  },
  {
    name: 'an unsealed event is removed',
    does: ({ root }, { unsealed_id }) =>
      inEvents(
        root,
        `delete from runledger.events where stream = '${unsealed_id}' and version = 2`,
      ),
    says: /^stream \S+ has 2 events up to version 3/,
  },
  {
    name: 'an unsealed submission is completed twice',
    does: ({ root }, { unsealed_id }) =>
      inEvents(
        root,
        `insert into runledger.events (stream, version, type, schema, at, generation, facts)
         select stream, 4, type, schema, at, generation, facts from runledger.events where stream = '${unsealed_id}' and version = 3`,
      ),
    says: /^submissions: stream \S+ version 4: submission.completed cannot follow here/,
  },
  {
    name: 'an event has nothing in the place of its digests',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `update runledger.events set facts = jsonb_set(facts, '{bytes}', 'null') where stream = '${ids[0]}' and version = 1`,
      ),
    says: /^changed event: /,
  },
  {
    name: 'a later event that is not sealed has other digests of the code and the output',
    does: ({ root }, { ids }) =>
      inEvents(
        root,
        `insert into runledger.events (stream, version, type, schema, at, generation, facts)
         select e.stream, m.version + 1, e.type, e.schema, clock_timestamp(), e.generation, e.facts
         from runledger.events e join (select stream, max(version) as version from runledger.events group by stream) m using (stream)
         where e.stream = '${ids[0]}' and e.version = 1`,
      ),
    says: /^two events of \S+ name the bytes of code/,
  },
  {
    name: 'the bytes of a program are changed',
    does: ({ root }, { ids }) =>
      root`update runledger.payloads set bytes = 'print(2)'::bytea where stream = ${ids[0]!} and kind = 'code'`,
    says: /^payloads: \S+ code does not have the bytes that its event names/,
  },
  {
    name: 'the salt of an output is changed',
    does: ({ root }, { ids }) =>
      root`update runledger.payloads set salt = sha256(salt) where stream = ${ids[0]!} and kind = 'stdout'`,
    says: /^payloads: \S+ stdout does not have the bytes/,
  },
  {
    name: 'an output is deleted',
    does: ({ root }, { ids }) =>
      root`delete from runledger.payloads where stream = ${ids[0]!} and kind = 'stdout'`,
    says: /^payloads: \S+ stdout is missing, and no purge claims it/,
  },
  {
    name: 'bytes are added that no event names',
    does: ({ root }, { ids }) =>
      root`insert into runledger.payloads values (${ids[0]!}, 'note', '\\x00', 'x'::bytea)`,
    says: /^payloads: \S+ note should not be there/,
  },
  {
    name: 'a verdict is changed in the row that the API reads',
    does: ({ root }, { ids }) =>
      root`update runledger.submissions set verdict = 'WA' where id = ${ids[0]!}`,
    says: /^submissions: \S+ is {"verdict":"WA"} and should be {"verdict":"AC"}/,
  },
  {
    name: 'a revoked-looking key: its row is changed',
    does: ({ root }, { key_id }) =>
      root`update runledger.keys set revoked_at = null, tier = 'beta' where id = ${key_id}`,
    says: /^keys: /,
  },
  {
    name: 'a secret is added to a key',
    does: ({ root }, { key_id }) =>
      root`insert into runledger.key_secrets values (${key_id}, sha256('mine'), now(), null)`,
    says: /^key_secrets: .* should not be there/,
  },
  {
    name: 'an operator that nobody made',
    does: async ({ root }) =>
      root`insert into runledger.operators values (gen_random_uuid(), 'mallory', sha256('mine'), now(), null)`,
    says: /^operators: .* should not be there/,
  },
  {
    name: 'the limits of a tier are raised',
    does: ({ root }) => root`update runledger.tiers set per_minute = 1000000 where name = 'beta'`,
    says: /^tiers: /,
  },
  {
    name: 'a delivery is called delivered that was not',
    does: ({ root }) => root`update runledger.deliveries set status = 'gone'`,
    says: /^deliveries: /,
  },
  {
    name: 'an account gets another name',
    does: ({ root }) => root`update runledger.accounts set name = 'somebody else'`,
    says: /^accounts: /,
  },
];
