/**
 * The server's own catalogue: types, operators, casts, languages, views; event triggers, temporary objects and settings.
 * jsonb's binary output is what most of them are after: it decides what verify reads of an event.
 */
import type { Db } from '../../src/db.ts';
import type { Ledger } from './ledger.ts';
import { inEvents, type Manipulation, statements } from './manipulation.ts';

const inThisDatabase = (role: string, setting: string) =>
  statements(
    `do $$ begin execute format('alter role ${role} in database %I set ${setting.replaceAll("'", "''")}', current_database()); end $$`,
  );

/** An event says WA, and hidden.send() prints the facts that it had before. */
async function forgeBehindSend(root: Db, { ids }: Ledger): Promise<void> {
  const read = async () =>
    (
      await root<{ facts: string }[]>`
        select replace(facts::text, '''', '''''') as facts from runledger.events
        where stream = ${ids[8]!} and type = 'submission.completed'`
    )[0]!.facts;
  const honest = await read();
  await inEvents(
    root,
    `update runledger.events set facts = jsonb_set(facts, '{verdict}', '"WA"')
     where stream = '${ids[8]}' and type = 'submission.completed';
     update runledger.submissions set verdict = 'WA' where id = '${ids[8]}'`,
  );
  const forged = await read();
  await root
    .unsafe(`create schema hidden; grant usage on schema hidden to public;
    create function hidden.send(jsonb) returns bytea language plpgsql immutable as $f$ begin
      return '\\x01'::bytea || convert_to(case $1::text when '${forged}' then '${honest}' else $1::text end, 'UTF8');
    end $f$`)
    .simple();
}

const forgedBehindSend =
  (more: string): Manipulation['does'] =>
  async ({ root }, ledger) => {
    await forgeBehindSend(root, ledger);
    await root.unsafe(more).simple();
  };

const REPLACE_SEND = 'alter type pg_catalog.jsonb set (send = hidden.send)';
const serverDiffers = (catalogue: string) =>
  new RegExp(
    `^the schema (has what this release has not|lacks): server catalogue ${catalogue} on PostgreSQL`,
  );

const LOGIN = (body: string) => `
  create function hidden.login() returns event_trigger language plpgsql security definer as $f$ begin ${body} end $f$;
  create event trigger zz on login execute function hidden.login(); alter event trigger zz enable always`;

const TEXT_EQUALITY = `amopfamily = (select oid from pg_opfamily where opfname = 'text_ops' and opfmethod = 403)
  and amoplefttype = 'text'::regtype and amoprighttype = 'text'::regtype`;

export const serverManipulations: readonly Manipulation[] = [
  {
    name: 'jsonb gets another binary output, and the row of our schema is written after it',
    does: forgedBehindSend(
      `${REPLACE_SEND}; grant usage on schema runledger to pg_monitor; revoke usage on schema runledger from pg_monitor`,
    ),
    says: serverDiffers('pg_type'),
  },
  {
    name: 'the same, and operators on (oid, integer) make the check of types find nothing',
    does: forgedBehindSend(`${REPLACE_SEND};
      create function hidden.no(oid, int4) returns boolean language sql immutable as 'select false';
      create operator pg_catalog.>= (leftarg = oid, rightarg = int4, function = hidden.no);
      create operator pg_catalog.< (leftarg = oid, rightarg = int4, function = hidden.no)`),
    says: /^the schema has what this release has not: operator >=\(oid,integer\)/,
  },
  {
    name: 'the same, and the operator belongs to an extension',
    does: forgedBehindSend(`${REPLACE_SEND};
      create function hidden.no(oid, int4) returns boolean language sql immutable as 'select false';
      create operator pg_catalog.< (leftarg = oid, rightarg = int4, function = hidden.no);
      alter extension plpgsql add operator pg_catalog.< (oid, int4)`),
    says: /^the schema has what this release has not: operator <\(oid,integer\)/,
  },
  {
    name: 'text in records is equal if it is not smaller',
    does: async ({ root }, { ids }) =>
      root
        .unsafe(`update runledger.submissions set verdict = 'AA' where id = '${ids[8]}';
        update pg_amop set amopopr = 0 where ${TEXT_EQUALITY} and amopstrategy = 4;
        update pg_amop set amopopr = 'pg_catalog.>=(text,text)'::regoperator where ${TEXT_EQUALITY} and amopstrategy = 3`)
        .simple(),
    says: serverDiffers('pg_amop'),
  },
  {
    name: 'uuids are compared by another support function',
    does: statements(`update pg_amproc set amproc = 'pg_catalog.uuid_hash'::regproc
      where amprocfamily = (select oid from pg_opfamily where opfname = 'uuid_ops' and opfmethod = 403) and amprocnum = 2`),
    says: serverDiffers('pg_amproc'),
  },
  {
    name: 'a cast of an extension',
    does: statements(`create function public.seven(text) returns int8 language sql as 'select 7::int8';
      create cast (text as int8) with function public.seven(text) as implicit; alter extension plpgsql add cast (text as int8)`),
    says: /^the schema has what this release has not: cast from text to bigint/,
  },
  {
    name: 'the validator of plpgsql is removed',
    does: statements(`update pg_language set lanvalidator = 0 where lanname = 'plpgsql'`),
    says: /^the schema lacks: language plpgsql/,
  },
  {
    name: 'the language sql gets another validator',
    does: statements(
      `update pg_language set lanvalidator = 'fmgr_c_validator'::regproc where lanname = 'sql'`,
    ),
    says: serverDiffers('pg_language'),
  },
  {
    name: 'the catalogue of functions is changed, and the row of our schema is written after it',
    does: statements(`update pg_proc set prosrc = 'jsonb_recv' where proname = 'jsonb_send';
      comment on schema runledger is 'x'; alter schema runledger owner to current_user; alter schema runledger owner to runledger_owner`),
    says: serverDiffers('pg_proc'),
  },
  {
    name: 'an aggregate of the server has another start',
    does: statements(
      `update pg_aggregate set agginitval = '1' where aggfnoid = 'pg_catalog.count()'::regprocedure`,
    ),
    says: serverDiffers('pg_aggregate'),
  },
  {
    name: 'the view of roles says that nobody bypasses row security',
    does: async ({ root }) => {
      const [view] = await root<
        { text: string }[]
      >`select pg_get_viewdef('pg_roles'::regclass) as text`;
      const text = view!.text
        .replace(/;\s*$/, '')
        .replace(/(pg_authid\.)?rolbypassrls/, 'false as rolbypassrls');
      await root
        .unsafe(`set allow_system_table_mods = on; create or replace view pg_catalog.pg_roles as ${text};
        reset allow_system_table_mods`)
        .simple();
    },
    says: serverDiffers('pg_rewrite'),
  },
  {
    name: 'row security hides a trigger of ours from the catalogue',
    does: statements(`set allow_system_table_mods = on; alter table pg_catalog.pg_trigger enable row level security;
      create policy zz on pg_catalog.pg_trigger using (tgname <> 'a_lie'); reset allow_system_table_mods`),
    says: /^the schema could not be checked|server catalogue pg_class/,
  },
  {
    name: 'a trigger at login puts the honest rows back while verify looks',
    does: async ({ root }, { ids }) => {
      const [row] = await root<{ verdict: string; part: string }[]>`
        select s.verdict, (select e.tableoid::regclass::text from runledger.events e where e.stream = s.id limit 1) as part
        from runledger.submissions s where s.id = ${ids[8]!}`;
      const set = (verdict: string) => `
        update runledger.events set facts = jsonb_set(facts, '{verdict}', '"${verdict}"')
        where stream = '${ids[8]}' and type = 'submission.completed';
        update runledger.submissions set verdict = '${verdict}' where id = '${ids[8]}';`;
      await inEvents(root, set('WA'));
      await root
        .unsafe(
          `create schema hidden; ${LOGIN(`
          alter table ${row!.part} disable trigger refuse_change;
          if current_setting('application_name') = 'verify' then ${set(row!.verdict)} else ${set('WA')} end if;
          alter table ${row!.part} enable always trigger refuse_change;
        exception when others then null;`)}`,
        )
        .simple();
    },
    says: /^the schema has what this release has not: event trigger zz on login: hidden\.login\(\)/,
  },
  {
    name: 'a trigger at login lays a temporary view over the catalogue',
    does: forgedBehindSend(
      `${REPLACE_SEND}; ${LOGIN(`
      if current_setting('application_name') = 'verify' then
        execute 'create temp view pg_type as select * from pg_catalog.pg_type where typname <> ''jsonb''';
        execute 'create temp view pg_event_trigger as select * from pg_catalog.pg_event_trigger where false';
        execute 'grant select on pg_temp.pg_type, pg_temp.pg_event_trigger to public';
        execute format('grant usage on schema %s to public',
          (select nspname from pg_catalog.pg_namespace where oid = pg_my_temp_schema()));
      end if;`)}`,
    ),
    says: /^the schema has what this release has not: temporary objects in this session/,
  },
  {
    name: 'an event trigger fires when a table is changed',
    does: statements(`create function public.e() returns event_trigger language plpgsql as $$ begin end $$;
      create event trigger e on ddl_command_end execute function public.e()`),
    says: /^the schema has what this release has not: event trigger e on ddl_command_end/,
  },
  {
    name: 'the owner searches a schema before pg_catalog, in upper case',
    does: statements(`create schema shadow; update pg_db_role_setting set setrole = setrole;
      do $$ begin execute format('alter role runledger_owner in database %I set "SEARCH_PATH" = shadow, pg_catalog', current_database()); end $$`),
    says: /^the schema has what this release has not: setting of role runledger_owner in this database: search_path=/i,
  },
  {
    name: 'the owner takes backslashes for escapes',
    does: inThisDatabase('runledger_owner', 'standard_conforming_strings = off'),
    says: /^the schema has what this release has not: setting of role runledger_owner in this database: standard_conforming_strings=off/,
  },
  ...(
    [
      ['runledger_worker', `bytea_output = 'escape'`, 'workers get another program'],
      ['runledger_web', `bytea_output = 'escape'`, 'customers read another output'],
      ['runledger_web', 'extra_float_digits = -15', 'customers read another score'],
      ['runledger_auditor', `datestyle = 'SQL, MDY'`, 'the auditor reads other dates'],
      ['runledger_auditor', `timezone = 'UTC+100'`, 'the auditor’s own dates mean others'],
      ['runledger_auditor', 'client_encoding = SJIS', 'the auditor reads other signs'],
    ] as const
  ).map(
    ([role, setting, what]): Manipulation => ({
      name: `a setting of a role: ${what}`,
      does: inThisDatabase(role, setting),
      says: new RegExp(
        `^the schema has what this release has not: setting of role ${role} in this database: ${setting.split(' ')[0]}=`,
        'i',
      ),
    }),
  ),
  {
    name: 'a setting of an auditor’s own login, which is in a group of auditors',
    // Roles are the server's, so the copy's end does not remove them.
    does: statements(`create role auditors; grant runledger_auditor to auditors; create role ada login; grant auditors to ada;
      alter role ada set timezone = 'UTC+100'`),
    after: ({ root }) => root.unsafe('drop role ada; drop role auditors').simple(),
    says: /^the schema has what this release has not: setting of role ada: timezone=UTC\+100/i,
  },
  {
    name: 'a setting of everyone: dates are printed in a zone that calls itself UTC',
    does: inThisDatabase('all', `timezone = 'UTC+100'`),
    says: /^the schema has what this release has not: setting of everyone in this database: timezone=UTC\+100/i,
  },
];
