/** One thing that a superuser does to a copy of the ledger, and what verify must say about it. */
import type { Db } from '../../src/db.ts';
import type { Removals } from '../../src/domain/removals.ts';
import type { Policy } from '../../src/proof/policy.ts';
import type { Copy, Ledger } from './ledger.ts';

export type Manipulation = {
  /** What is done, for the table. */
  readonly name: string;
  does(copy: Copy, ledger: Ledger): Promise<unknown>;
  /** Undoes what the end of the copy does not undo. */
  after?(copy: Copy): Promise<unknown>;
  /** One of the problems that verify must name. */
  readonly says: RegExp;
  /** What the auditor brings: another policy, a kept checkpoint, no removals, or more of them. */
  readonly with?: {
    readonly policy?: Policy;
    readonly kept?: boolean;
    readonly removals?: boolean;
    readonly allow?: () => Removals;
  };
  /** Why verify cannot notice it: AUDIT.md has the line. verify must then find nothing. */
  readonly cannot?: string;
};

/** Runs statements past the triggers, which are as they were afterwards. */
export async function quietly(
  root: Db,
  tables: readonly string[],
  statements: string,
): Promise<void> {
  const each = (change: string) =>
    tables.map((table) => `alter table runledger.${table} ${change};`).join('\n');
  const triggers = await root.unsafe<{ table: string; name: string }[]>(`
    select c.relname as table, g.tgname as name from pg_trigger g join pg_class c on c.oid = g.tgrelid
    where c.relnamespace = 'runledger'::regnamespace and not g.tgisinternal and g.tgenabled = 'A'
      and c.relname = any ('{${tables.join(',')}}'::text[])`);
  await root
    .unsafe(
      `begin; ${each('disable trigger user')} ${statements}; ${triggers
        .map(({ table, name }) => `alter table runledger.${table} enable always trigger ${name};`)
        .join('\n')} commit`,
    )
    .simple();
}

export async function eventTables(root: Db): Promise<string[]> {
  const rows = await root<{ name: string }[]>`
    select c.relname as name from pg_partition_tree('runledger.events') x join pg_class c on c.oid = x.relid where x.isleaf`;
  return rows.map(({ name }) => name);
}

/** Changes events past their triggers. */
export async function inEvents(root: Db, statements: string): Promise<void> {
  await quietly(root, await eventTables(root), statements);
}

/** Only these statements, as a superuser. */
export const statements =
  (text: string): Manipulation['does'] =>
  ({ root }) =>
    root.unsafe(text).simple();
