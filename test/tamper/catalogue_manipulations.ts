/** What our part of the catalogue says: owners, rights, months, indexes, the queue, members of roles, detached tables. */
import { connect } from '../../src/db.ts';
import { lockWaits } from '../support/lock_waits.ts';
import type { Copy, Ledger } from './ledger.ts';
import { type Manipulation, statements } from './manipulation.ts';

export const catalogueManipulations: readonly Manipulation[] = [
  {
    name: 'a function belongs to another role',
    does: statements(`alter function runledger.read_result owner to runledger_web`),
    says: /^the schema has what this release has not: function read_result\(.* of another owner/,
  },
  {
    name: 'a function is said to be cheap',
    does: statements(`alter function runledger.fold_submissions() cost 1 rows 1`),
    says: /^the schema lacks: function fold_submissions\(\)/,
  },
  {
    name: 'web may change one column of the log',
    does: statements(`grant update (facts) on runledger.events to runledger_web`),
    says: /^the schema has what this release has not: may runledger_web update runledger\.events\.facts/,
  },
  {
    name: 'everyone may read the payloads',
    does: statements(`grant select on runledger.payloads to public`),
    says: /^the schema has what this release has not: may everyone select runledger\.payloads/,
  },
  {
    name: 'web may create objects in our schema',
    does: statements(`grant create on schema runledger to runledger_web`),
    says: /^the schema has what this release has not: may runledger_web create schema runledger/,
  },
  {
    name: 'web gets rights to tables that are made later',
    does: statements(
      `alter default privileges for role runledger_owner in schema runledger grant all on tables to runledger_web`,
    ),
    says: /^the schema has what this release has not: may runledger_web \w+ what is made later/,
  },
  {
    name: 'a trigger fires for one column only',
    does: async ({ root }, { partition }) =>
      root
        .unsafe(`drop trigger refuse_truncate on runledger.${partition};
        create trigger refuse_truncate before truncate on runledger.${partition} for each statement execute function runledger.refuse_change('x');
        alter table runledger.${partition} enable always trigger refuse_truncate`)
        .simple(),
    says: /^the schema has what this release has not: trigger refuse_truncate on events_YYYY_MM: \S+ 34 A with 7800/,
  },
  {
    name: 'a trigger that counts as internal',
    does: async ({ root }, { partition }) =>
      root
        .unsafe(`create function public.lie() returns trigger language plpgsql as $$ begin return null; end $$;
        create trigger a_lie before insert on runledger.${partition} for each row execute function public.lie();
        update pg_trigger set tgisinternal = true where tgname = 'a_lie'`)
        .simple(),
    says: /^the schema has what this release has not: internal trigger on events_YYYY_MM: public\.lie\(\)/,
  },
  {
    name: 'a month has a constraint of its own',
    does: async ({ root }, { partition }) =>
      root.unsafe(
        `alter table runledger.${partition} add constraint zz check (type <> 'submission.failed') not valid`,
      ),
    says: /^the schema has what this release has not: constraint on events_YYYY_MM: CHECK/,
  },
  {
    name: 'a month has another default',
    does: async ({ root }, { partition }) =>
      root.unsafe(`alter table runledger.${partition} alter column at set default now()`),
    says: /^the schema has what this release has not: column events_YYYY_MM\.at .* default now\(\)/,
  },
  {
    name: 'a month has an index over a function',
    does: async ({ root }, { partition }) =>
      root
        .unsafe(`create function public.one(uuid) returns integer language sql immutable as 'select 1';
        create index zz on runledger.${partition} (public.one(stream))`)
        .simple(),
    says: /^the schema has what this release has not: index on events_YYYY_MM: USING btree \(public\.one\(stream\)\)/,
  },
  {
    name: 'the primary key of a month is not unique any more',
    does: async ({ root }, { partition }) =>
      root.unsafe(
        `update pg_index set indisunique = false, indisprimary = false where indrelid = 'runledger.${partition}'::regclass and indisprimary`,
      ),
    says: /^the schema lacks: index on events_\d{4}_\d\d: UNIQUE/,
  },
  {
    name: 'an index is not read any more',
    does: statements(
      `update pg_index set indisvalid = false where indexrelid = 'runledger.key_secrets_pkey'::regclass`,
    ),
    says: /^the schema has what this release has not: index on key_secrets: .* primary not in use/,
  },
  {
    name: 'a partition of a month that there is not',
    does: statements(`create table runledger.events_2031_13 partition of runledger.events
      for values from ('0fffffff-0000-0000-0000-000000000000') to ('0fffffff-ffff-0000-0000-000000000000')`),
    says: /^events_2031_13 is attached, and is no month/,
  },
  {
    name: 'the order of the feed counts backwards',
    does: statements(
      `alter sequence runledger.events_seq increment by -1 minvalue -9223372036854775807`,
    ),
    says: /^the schema has what this release has not: sequence events_seq bigint from 1 by -1/,
  },
  {
    name: 'the queue adds jobs in another way',
    does: async ({ root }) => {
      const [fn] = await root<{ text: string }[]>`
        select pg_get_functiondef(oid) as text from pg_proc
        where pronamespace = 'graphile_worker'::regnamespace and proname = 'add_job' limit 1`;
      await root.unsafe(fn!.text.replace(/begin/i, 'begin /* evil */ '));
    },
    says: /^the schema lacks: function graphile_worker\.add_job\(/,
  },
  {
    name: 'a trigger on the jobs of the queue',
    does: statements(`create function public.lie() returns trigger language plpgsql as $$ begin return null; end $$;
      create trigger a_lie before insert on graphile_worker._private_jobs for each row execute function public.lie()`),
    says: /^the schema has what this release has not: trigger a_lie on graphile_worker\._private_jobs/,
  },
  {
    name: 'another login becomes the owner',
    does: async ({ root }) => {
      // Roles are the server's, so the copy's end does not remove it.
      await root.unsafe(`create role tampered login; grant runledger_owner to tampered`).simple();
    },
    after: ({ root }) => root.unsafe('drop role tampered'),
    says: /^the schema has what this release has not: the role tampered is in runledger_owner/,
  },
  {
    name: 'a detached month is replaced by a view',
    does: async ({ root }, { detached }) =>
      root
        .unsafe(`alter table runledger_detached.${detached} rename to kept;
        create view runledger_detached.${detached} as select * from runledger_detached.kept where type <> 'submission.failed'`)
        .simple(),
    says: /^runledger_detached\.events_\d{4}_\d\d is no plain table/,
  },
  {
    name: 'row security hides rows of a detached month',
    does: async ({ root }, { detached }) =>
      root.unsafe(`alter table runledger_detached.${detached} enable row level security`),
    says: /^runledger_detached\.events_\d{4}_\d\d is no plain table/,
  },
  {
    name: 'a fold is replaced while verify reads the log, and put back before it ends',
    does: replaceWhileItRuns,
    says: /^the schema was changed while verify ran: function runledger\.fold_submissions\(\)/,
  },
  ...[
    {
      what: 'count(*)',
      first: `update pg_aggregate set aggtransfn = 'pg_catalog.int8up'::regproc where aggfnoid = 'pg_catalog.count()'::regprocedure`,
      last: `update pg_aggregate set aggtransfn = 'pg_catalog.int8inc'::regproc where aggfnoid = 'pg_catalog.count()'::regprocedure`,
      says: /^the schema was changed while verify ran: function count\(\)/,
    },
    {
      what: 'whether a column may be empty',
      first: `update pg_attribute set attnotnull = false where attrelid = 'runledger.keys'::regclass and attname = 'account_id'`,
      last: `update pg_attribute set attnotnull = true where attrelid = 'runledger.keys'::regclass and attname = 'account_id'`,
      says: /^the schema was changed while verify ran: column account_id of table runledger\.keys/,
    },
    {
      what: 'whether an index is unique',
      first: `update pg_index set indisunique = false where indexrelid = 'runledger.tiers_pkey'::regclass`,
      last: `update pg_index set indisunique = true where indexrelid = 'runledger.tiers_pkey'::regclass`,
      says: /^the schema was changed while verify ran: index runledger\.tiers_pkey/,
    },
  ].map(({ what, first, last, says }) => ({
    name: `${what} is replaced while verify reads the log, and put back before it ends`,
    does: (copy: Copy) => whileItRuns(copy, first, last),
    says,
  })),
];

async function replaceWhileItRuns(copy: Copy, { ids }: Ledger): Promise<void> {
  const { root } = copy;
  await root`update runledger.submissions set verdict = 'WA' where id = ${ids[8]!}`;
  const [fold] = await root<{ honest: string; result: string }[]>`
    select pg_get_functiondef(oid) as honest, pg_get_function_result(oid) as result
    from pg_proc where oid = 'runledger.fold_submissions()'::regprocedure`;
  const evil = `create or replace function runledger.fold_submissions() returns ${fold!.result} language sql stable
    as 'select * from runledger.submissions'`;
  await whileItRuns(copy, evil, fold!.honest);
}

/** One statement when verify has checked the schema, and another one later. */
async function whileItRuns({ root, root_url }: Copy, first: string, last: string): Promise<void> {
  const stops = async (table: string) => {
    const one = connect(root_url, { name: 'attacker', max: 1 });
    await one.unsafe(`begin; lock table runledger.${table} in access exclusive mode`).simple();
    return async (statement: string) => {
      while ((await lockWaits(root, table)) === 0);
      // Checking the body would wait for the table that is locked here.
      await root.unsafe(`set check_function_bodies = off; ${statement}`).simple();
      await one.end();
    };
  };
  // verify reads submissions when it has checked the functions, and webhook_secrets last.
  const whenItFolds = await stops('submissions');
  const whenItEnds = await stops('webhook_secrets');
  void whenItFolds(first).then(() => whenItEnds(last));
}
