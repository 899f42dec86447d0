/** One thing that a superuser does to a copy of the ledger, and what verify must say about it. */
import type { Removals } from '../../src/domain/removals.ts';
import type { Policy } from '../../src/proof/policy.ts';
import type { Copy, Ledger } from './ledger.ts';

export { eventTables, inEvents, quietly } from './past_triggers.ts';

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

/** Only these statements, as a superuser. */
export const statements =
  (text: string): Manipulation['does'] =>
  ({ root }) =>
    root.unsafe(text).simple();
