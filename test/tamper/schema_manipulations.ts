/** What readers go through: functions, views, triggers, rules, row security, types, casts, operators, settings, rights. */
import { inEvents, type Manipulation, statements } from './manipulation.ts';

const FORGED = (id: string) =>
  `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"') where stream = '${id}' and type = 'submission.completed'`;

export const schemaManipulations: readonly Manipulation[] = [
  {
    name: 'an event is changed, and event_leaf() answers the old hash for it',
    does: async ({ root }, { ids }) => {
      const [old] = await root<{ leaf: string }[]>`
        select encode(runledger.event_leaf(stream, version, type, schema, at, generation, xid, seq, facts), 'hex') as leaf
        from runledger.events where stream = ${ids[0]!} and type = 'submission.completed'`;
      await root.unsafe(`
        create or replace function runledger.event_leaf(
          stream uuid, version integer, type text, schema smallint, at timestamptz, generation smallint, xid xid8, seq bigint, facts jsonb
        ) returns bytea language sql stable as $$ select decode('${old!.leaf}', 'hex') $$`);
      await inEvents(root, FORGED(ids[0]!));
    },
    says: /^changed event: /,
  },
  {
    name: 'event_leaf() gets another text',
    does: statements(`create or replace function runledger.event_leaf(
      stream uuid, version integer, type text, schema smallint, at timestamptz, generation smallint, xid xid8, seq bigint, facts jsonb
    ) returns bytea language sql stable as $$ select ''::bytea $$`),
    says: /^the schema lacks: function event_leaf\(/,
  },
  {
    name: 'refuse_change() lets changes through',
    does: statements(`create or replace function runledger.refuse_change() returns trigger language plpgsql
      as $$ begin return coalesce(new, old); end $$`),
    says: /^the schema lacks: function refuse_change\(\)/,
  },
  {
    name: 'a trigger is dropped from one partition',
    does: async ({ root }, { partition }) =>
      root.unsafe(`drop trigger refuse_truncate on runledger.${partition}`),
    says: /^the schema lacks: trigger refuse_truncate on events_\d{4}_\d\d/,
  },
  {
    name: 'a trigger is disabled on one partition',
    does: async ({ root }, { partition }) =>
      root.unsafe(`alter table runledger.${partition} disable trigger refuse_change`),
    says: /^the schema (lacks|has what this release has not): trigger refuse_change on events_/,
  },
  {
    name: 'a trigger is enabled for origin sessions only',
    does: async ({ root }, { partition }) =>
      root.unsafe(`alter table runledger.${partition} enable trigger refuse_change`),
    says: /^the schema has what this release has not: trigger refuse_change on events_\S+: runledger\.refuse_change\(\) 27 O/,
  },
  {
    name: 'a trigger is added that rewrites what is appended',
    does: statements(`create function runledger.rewrite() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger rewrite before insert on runledger.events for each row execute function runledger.rewrite()`),
    says: /^the schema has what this release has not: trigger rewrite on events/,
  },
  ...(
    [
      ['triggers', 'relhastriggers = false', 'a trigger'],
      ['checks', 'relchecks = 0', 'a check'],
    ] as const
  ).map(
    ([what, change, named]): Manipulation => ({
      name: `the flag is cleared by which the server looks for ${what}`,
      does: async ({ root }, { partition }) =>
        root.unsafe(`update pg_class set ${change} where oid = 'runledger.${partition}'::regclass`),
      says: new RegExp(`^the schema has what this release has not: ${named} of runledger`),
    }),
  ),
  {
    name: 'the flag is cleared by which the server looks for defaults',
    does: statements(
      `update pg_attribute set atthasdef = false where attrelid = 'runledger.events'::regclass`,
    ),
    says: /^the schema has what this release has not: a default of runledger/,
  },
  {
    name: 'a view gets a condition that is not in its text',
    does: statements(`begin; set local allow_system_table_mods = on;
      create cast (text as pg_node_tree) without function;
      update pg_rewrite set ev_action = replace(ev_action::text, ':securityQuals <>', ':securityQuals ({CONST :consttype 16 :consttypmod -1 '
        || ':constcollid 0 :constlen 1 :constbyval true :constisnull false :location -1 :constvalue 1 [ 0 0 0 0 0 0 0 0 ]})')::pg_node_tree
      where ev_class = 'runledger.audit_submissions'::regclass;
      drop cast (text as pg_node_tree); commit`),
    says: /^the schema has what this release has not: view audit_submissions has a condition that its text does not show/,
  },
  {
    name: 'a rule discards what is appended',
    does: async ({ root }, { partition }) =>
      root.unsafe(`create rule quiet as on insert to runledger.${partition} do instead nothing`),
    says: /^the schema has what this release has not: rule on events_/,
  },
  {
    name: 'row security hides rows of the log from the owner',
    does: statements(`alter table runledger.events enable row level security; alter table runledger.events force row level security;
      create policy hidden on runledger.events using (type <> 'submission.failed')`),
    says: /^the schema has what this release has not: (relation events kind p with row security|policy on events)/,
  },
  {
    name: 'row security hides submissions',
    does: statements(`alter table runledger.submissions enable row level security`),
    says: /relation submissions kind p with row security/,
  },
  {
    name: 'events is replaced by a view',
    does: statements(
      `alter table runledger.events rename to events_kept; create view runledger.events as select * from runledger.events_kept`,
    ),
    says: /^the schema has what this release has not: relation events kind v/,
  },
  {
    name: 'a partition is replaced by one that is not logged',
    does: async ({ root }, { partition }) =>
      root.unsafe(`alter table runledger.${partition} set unlogged`),
    says: /relation events_YYYY_MM kind r not permanent/,
  },
  {
    name: 'a table of another schema is attached as a partition',
    does: async ({ root }) =>
      root
        .unsafe(`create schema other; create table other.more (like runledger.events including all);
        alter table runledger.events attach partition other.more
        for values from ('0fffffff-0000-0000-0000-000000000000') to ('0fffffff-ffff-0000-0000-000000000000')`)
        .simple(),
    says: /^the schema has what this release has not: child other\.more of events/,
  },
  {
    name: 'a partition is attached with other bounds',
    does: async ({ root }, { partition }) => {
      const [bounds] = await root.unsafe<{ text: string }[]>(
        `select pg_get_expr(relpartbound, oid) as text from pg_class where oid = 'runledger.${partition}'::regclass`,
      );
      const wider = bounds!.text.replace(
        /0000-0000-000000000000'\) TO/,
        "0000-0000-000000000001') TO",
      );
      await root
        .unsafe(`alter table runledger.events detach partition runledger.${partition};
        alter table runledger.events attach partition runledger.${partition} ${wider}`)
        .simple();
    },
    says: /^events_\d{4}_\d\d is attached FOR VALUES/,
  },
  {
    name: 'a table inherits from the keys',
    does: statements(`create table public.more_keys () inherits (runledger.keys)`),
    says: /^the schema has what this release has not: child public\.more_keys of keys by inheritance/,
  },
  {
    name: 'a column gets a type of our name in another schema',
    does: statements(
      `create domain public.text as pg_catalog.text; alter table runledger.tiers alter column name type public.text`,
    ),
    says: /table tiers\.name public\.text/,
  },
  {
    name: 'an audit view hides a submission',
    does: async ({ root }, { ids }) => {
      const [view] = await root<{ text: string }[]>`
        select pg_get_viewdef('runledger.audit_submissions'::regclass) as text`;
      await root.unsafe(
        `create or replace view runledger.audit_submissions as select * from (${view!.text.replace(';', '')}) x where submission_id <> '${ids[0]}'`,
      );
    },
    says: /^the schema lacks: view audit_submissions/,
  },
  {
    name: 'a definition of a projection is changed together with its rows',
    does: async ({ root }) => {
      const [view] = await root<{ text: string }[]>`
        select pg_get_viewdef('runledger.accounts_from_log'::regclass) as text`;
      await root
        .unsafe(`create or replace view runledger.accounts_from_log as
        select id, name || '!' as name, created_at from (${view!.text.replace(';', '')}) x;
        update runledger.accounts set name = name || '!'`)
        .simple();
    },
    says: /^the schema lacks: view accounts_from_log/,
  },
  {
    name: 'next_submission() gives another verdict',
    does: async ({ root }) => {
      const [fn] = await root<{ text: string }[]>`
        select pg_get_functiondef(oid) as text from pg_proc where proname = 'next_submission'`;
      await root.unsafe(fn!.text.replace("s.verdict := 'IE'", "s.verdict := 'AC'"));
    },
    says: /^the schema lacks: function next_submission\(/,
  },
  {
    name: 'a function searches another schema first',
    does: statements(`alter function runledger.read_result set search_path = public, runledger`),
    says: /^the schema lacks: function read_result\(/,
  },
  {
    name: 'a cast between types of the server is added',
    does: statements(`create function public.quiet(smallint) returns boolean language sql as 'select false';
      create cast (smallint as boolean) with function public.quiet(smallint) as implicit`),
    says: /^the schema has what this release has not: cast from smallint to boolean/,
  },
  {
    name: 'an operator on types of the server is added',
    does: statements(`create function public.never(uuid, text) returns boolean language sql as 'select false';
      create operator public.= (leftarg = uuid, rightarg = text, function = public.never)`),
    says: /^the schema has what this release has not: operator public\.=\(uuid,text\)/,
  },
  {
    name: 'a function of the server is redefined',
    does: statements(
      `create or replace function pg_catalog.jsonb_send(jsonb) returns bytea language sql immutable strict as $$ select ''::bytea $$`,
    ),
    says: /^the schema has what this release has not: server catalogue pg_proc .*\(written last: function jsonb_send\(jsonb\)\)/,
  },
  {
    name: 'a function of the name of a server function is added to pg_catalog',
    does: statements(
      `create function pg_catalog.sha256(text) returns bytea language sql as $$ select ''::bytea $$`,
    ),
    says: /^the schema has what this release has not: function sha256\(text\)/,
  },
  {
    name: 'the owner searches a schema before pg_catalog',
    does: async ({ root, owner_url }) =>
      root
        .unsafe(`create schema shadow; create view shadow.pg_class as select * from pg_catalog.pg_class where false;
        alter role runledger_owner in database "${new URL(owner_url).pathname.slice(1)}" set search_path = shadow, pg_catalog`)
        .simple(),
    says: /^the schema has what this release has not: setting of role runledger_owner in this database: search_path=shadow, pg_catalog/,
  },
  {
    name: 'everyone searches a schema before pg_catalog',
    does: async ({ root, owner_url }) =>
      root
        .unsafe(
          `create schema shadow; alter database "${new URL(owner_url).pathname.slice(1)}" set search_path = shadow, pg_catalog`,
        )
        .simple(),
    says: /^the schema has what this release has not: setting of everyone in this database/,
  },
  {
    name: 'web may write to the log itself',
    does: statements(`grant insert, update on runledger.events to runledger_web`),
    says: /^the schema has what this release has not: may runledger_web (insert|update) runledger\.events/,
  },
  {
    name: 'the worker may call a function of web',
    does: statements(`grant execute on function runledger.records_of to runledger_worker`),
    says: /^the schema has what this release has not: may runledger_worker execute records_of/,
  },
  {
    name: 'a table belongs to another role',
    does: statements(`alter table runledger.checkpoints owner to runledger_web`),
    says: /relation checkpoints kind r of another owner/,
  },
  {
    name: 'a default of a column is changed',
    does: statements(`alter table runledger.events alter column xid set default '3'::xid8`),
    says: /^the schema has what this release has not: table events\.xid xid8 not null default '3'::xid8/,
  },
  {
    name: 'a constraint is dropped',
    does: statements(
      `alter table runledger.checkpoints drop constraint checkpoints_origin_size_key`,
    ),
    says: /^the schema lacks: constraint checkpoints UNIQUE \(origin, size\)/,
  },
  ...['57P01', '08006', '40001', 'RL422'].map(
    (code): Manipulation => ({
      name: `a function fails with the code ${code}, and its message says proven`,
      does: statements(
        `create or replace function runledger.next_status(status text, type text) returns text language plpgsql immutable as $$ begin
           raise exception E'\\x1b[2Jproven up to leaf 98' using errcode = '${code}'; end $$`,
      ),
      says: /^submissions: \\u001b\[2Jproven up to leaf 98$/,
    }),
  ),
];
