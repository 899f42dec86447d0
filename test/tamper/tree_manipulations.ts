/**
 * What the server runs is not what it prints: the tree of a view, a check or a default is changed past the parser. And rows that
 * a constraint forbids.
 */
import type { Db } from '../../src/db.ts';
import { eventTables, type Manipulation, quietly } from './manipulation.ts';

type Place = {
  readonly table: string;
  readonly column: string;
  readonly where: string;
  /** Prints it, as SQL. */
  readonly print: string;
};

const ofView = (view: string): Place => ({
  table: 'pg_rewrite',
  column: 'ev_action',
  where: `ev_class = '${view}'::regclass`,
  print: 'pg_get_viewdef(ev_class)',
});
const ofCheck = (table: string, text: string): Place => ({
  table: 'pg_constraint',
  column: 'conbin',
  where: `conrelid = '${table}'::regclass and pg_get_constraintdef(oid) like '%${text}%'`,
  print: 'pg_get_constraintdef(oid)',
});
const ofDefault = (table: string, column: string): Place => ({
  table: 'pg_attrdef',
  column: 'adbin',
  where: `adrelid = '${table}'::regclass and adnum = (select attnum from pg_attribute where attrelid = '${table}'::regclass and attname = '${column}')`,
  print: 'pg_get_expr(adbin, adrelid)',
});

async function treeAt(root: Db, { table, column, where, print }: Place) {
  const [row] = await root.unsafe<{ tree: string; printed: string }[]>(
    `select ${column}::text as tree, ${print} as printed from ${table} where ${where}`,
  );
  return row!;
}

async function putTree(root: Db, { table, column, where }: Place, tree: string): Promise<void> {
  await root
    .unsafe(`begin; set local allow_system_table_mods = on; create cast (text as pg_node_tree) without function;
      update ${table} set ${column} = $tree$${tree}$tree$::text::pg_node_tree where ${where};
      drop cast (text as pg_node_tree); commit`)
    .simple();
}

/** The server prints what it printed before. */
async function edit(root: Db, place: Place, change: (tree: string) => string): Promise<void> {
  const { tree, printed } = await treeAt(root, place);
  const changed = change(tree);
  if (changed === tree) throw new Error(`nothing to change where ${place.where}`);
  await putTree(root, place, changed);
  if ((await treeAt(root, place)).printed !== printed)
    throw new Error(`printed otherwise where ${place.where}`);
}

async function columnsOf(root: Db, table: string): Promise<Record<string, number>> {
  const rows = await root.unsafe<{ name: string; number: number }[]>(
    `select attname as name, attnum as number from pg_attribute where attrelid = '${table}'::regclass and attnum > 0`,
  );
  return Object.fromEntries(rows.map(({ name, number }) => [name, number]));
}

/** A target shows another column of the same type. */
const readsInstead = (from: number, to: number) => (tree: string) =>
  tree.replaceAll(
    new RegExp(`(:expr \\{VAR :varno \\d+ :varattno )${from}( [^}]*:varattnosyn ${from} )`, 'g'),
    `$1${to}$2`,
  );

/** The first node of this kind, up to its brace. */
function nodeIn(tree: string, begin: string): string {
  const from = tree.indexOf(begin);
  if (from < 0) throw new Error(`no ${begin} in the tree`);
  let depth = 0;
  for (let at = from; at < tree.length; at++) {
    if (tree[at] === '{') depth++;
    if (tree[at] === '}' && --depth === 0) return tree.slice(from, at + 1);
  }
  throw new Error(`no end of ${begin} in the tree`);
}

const TRUE =
  `{CONST :consttype 16 :consttypmod -1 :constcollid 0 :constlen 1 :constbyval true :constisnull false :location -1
  :constvalue 1 [ 1 0 0 0 0 0 0 0 ]}`.replaceAll(/\s+/g, ' ');
const FALSE = TRUE.replace('[ 1 ', '[ 0 ');

/** A function of two conditions, of which only the first is printed, as that of an implicit coercion. */
async function coerced(root: Db, name: string, condition: string, hidden: string): Promise<string> {
  const [row] = await root.unsafe<{ oid: string }[]>(
    `select 'pg_catalog.${name}(boolean, boolean)'::regprocedure::oid::text as oid`,
  );
  return `{FUNCEXPR :funcid ${row!.oid} :funcresulttype 16 :funcretset false :funcvariadic false :funcformat 2 :funccollid 0
    :inputcollid 0 :args (${condition} ${hidden}) :location -1}`.replaceAll(/\s+/g, ' ');
}

const lacks = (what: string) => new RegExp(`^the schema lacks: ${what} on PostgreSQL \\d+ `);

const PUT_BEFORE_FIRST = `insert into runledger.checkpoints
  select (jsonb_populate_record(c, '{"number": -1, "size": 1, "note": "x"}')).* from runledger.checkpoints c where number = 1`;

export const treeManipulations: readonly Manipulation[] = [
  {
    name: 'a view reads another column than the one that it prints',
    does: async ({ root }) => {
      const { verdict, language } = await columnsOf(root, 'runledger.submissions');
      await edit(root, ofView('runledger.audit_submissions'), readsInstead(verdict!, language!));
    },
    says: lacks('view audit_submissions'),
  },
  {
    name: 'a view has a condition that is printed as half of it',
    does: async ({ root }) => {
      const place = ofView('runledger.audit_retention');
      const condition = nodeIn((await treeAt(root, place)).tree, '{SCALARARRAYOPEXPR :opno 98 ');
      const both = await coerced(root, 'booland_statefunc', condition, FALSE);
      await edit(root, place, (tree) => tree.replace(condition, both));
    },
    says: lacks('view audit_retention'),
  },
  {
    name: 'an operator in a view runs the function of another',
    does: ({ root }) =>
      edit(root, ofView('runledger.audit_retention'), (tree) =>
        tree.replaceAll(':opno 98 :opfuncid 67', ':opno 98 :opfuncid 740'),
      ),
    says: lacks('view audit_retention'),
  },
  {
    name: 'pg_roles shows another column than the one that it prints',
    does: async ({ root }) => {
      const { rolsuper, rolreplication } = await columnsOf(root, 'pg_catalog.pg_authid');
      await edit(root, ofView('pg_catalog.pg_roles'), readsInstead(rolsuper!, rolreplication!));
    },
    says: /^the schema has what this release has not: server catalogue pg_rewrite .*\(written last: pg_roles\)/,
  },
  {
    name: 'a check is printed, and holds for no row',
    does: async ({ root }) => {
      const place = ofCheck('runledger.checkpoints', 'number > 0');
      const { tree } = await treeAt(root, place);
      const always = await coerced(root, 'boolor_statefunc', tree, TRUE);
      await edit(root, place, () => always);
    },
    says: lacks('trees of checkpoints'),
  },
  {
    name: 'a default is printed, and gives another value',
    does: async ({ root }) => {
      const place = ofDefault('runledger.log_sketch', 'only_row');
      const { tree } = await treeAt(root, place);
      const other = await coerced(root, 'booland_statefunc', tree, FALSE);
      await edit(root, place, () => other);
    },
    says: lacks('trees of log_sketch'),
  },
  {
    name: 'a checkpoint of a number below 1 is put past its check',
    does: ({ root }) =>
      pastCheck(root, ['checkpoints', 'number > 0'], ['checkpoints'], PUT_BEFORE_FIRST),
    says: /^checkpoint -1 has a number that none can have/,
  },
  {
    name: 'a checkpoint has a root that its check forbids',
    does: ({ root }) =>
      pastCheck(
        root,
        ['checkpoints', 'octet_length(root)'],
        ['checkpoints'],
        `update runledger.checkpoints set root = '' where number = 1`,
      ),
    says: /^1 rows of checkpoints break its constraint CHECK \(octet_length\(root\) = 32\)/,
  },
  {
    name: 'an event has a version that its check forbids',
    does: async ({ root }, { unsealed_id }) =>
      pastCheck(
        root,
        ['events', 'version > 0'],
        await eventTables(root),
        `update runledger.events set version = 0 where stream = '${unsealed_id}' and version = 1`,
      ),
    says: /^1 rows of events break its constraint CHECK \(version > 0\)/,
  },
  {
    name: 'a row has no value where it must have one',
    does: ({ root }) =>
      root
        .unsafe(`alter table runledger.refusals alter column last_request_id drop not null;
          insert into runledger.refusals (key_id, key_prefix, hour, error, requests, last_at, last_request_id)
          values (null, 'none', now(), 'unauthorized', 1, now(), null);
          set allow_system_table_mods = on;
          update pg_attribute set attnotnull = true where attrelid = 'runledger.refusals'::regclass and attname = 'last_request_id'`)
        .simple(),
    says: /^1 rows of refusals break its constraint NOT NULL/,
  },
];

/** Drops a check, and adds it again as if every row had been looked at. */
async function pastCheck(
  root: Db,
  [table, check]: readonly [string, string],
  changed: readonly string[],
  change: string,
): Promise<void> {
  const [row] = await root.unsafe<{ name: string; text: string }[]>(
    `select conname as name, pg_get_constraintdef(oid) as text from pg_constraint
     where conrelid = 'runledger.${table}'::regclass and pg_get_constraintdef(oid) like '%${check}%'`,
  );
  const { name, text } = row!;
  await quietly(
    root,
    changed,
    `alter table runledger.${table} drop constraint ${name}; ${change};
     alter table runledger.${table} add constraint ${name} ${text} not valid;
     update pg_constraint set convalidated = true where conname = '${name}'`,
  );
}
