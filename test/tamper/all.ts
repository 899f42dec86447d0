import { catalogueManipulations } from './catalogue_manipulations.ts';
import { claimManipulations } from './claim_manipulations.ts';
import { indexManipulations } from './index_manipulations.ts';
import { jsonbManipulations } from './jsonb_manipulations.ts';
import type { Ledger } from './ledger.ts';
import { logManipulations } from './log_manipulations.ts';
import type { Manipulation } from './manipulation.ts';
import { nameManipulations } from './name_manipulations.ts';
import { proofManipulations } from './proof_manipulations.ts';
import { rowManipulations } from './row_manipulations.ts';
import { schemaManipulations } from './schema_manipulations.ts';
import { serverManipulations } from './server_manipulations.ts';
import { testSetManipulations } from './test_set_manipulations.ts';
import { timeManipulations } from './time_manipulations.ts';
import { treeManipulations } from './tree_manipulations.ts';

export const allManipulations: readonly Manipulation[] = [
  ...logManipulations,
  ...schemaManipulations,
  ...treeManipulations,
  ...catalogueManipulations,
  ...nameManipulations,
  ...serverManipulations,
  ...jsonbManipulations,
  ...proofManipulations,
  ...indexManipulations,
  ...rowManipulations,
  ...timeManipulations,
  ...claimManipulations,
  ...testSetManipulations,
];

export type Tampered = {
  readonly caught: boolean;
  readonly as_expected: boolean;
  /** The problem that was looked for, else the first one. */
  readonly said: string;
};

export async function tamper(ledger: Ledger, manipulation: Manipulation): Promise<Tampered> {
  const { does, after, says, cannot, with: brought = {} } = manipulation;
  const copy = await ledger.copy();
  try {
    await does(copy, ledger);
    const { problems, proven } = await copy.verify(brought);
    const found = problems.find((problem) => says.test(problem));
    const caught = problems.length > 0;
    // Nothing was sealed of these events, so none can differ from what was sealed.
    const innocent = new RegExp(`^(changed|inserted|removed) event: ${ledger.unsealed_id}`);
    const blamed = problems.find((problem) => innocent.test(problem));
    const as_said = cannot ? !caught && proven !== null : found !== undefined && proven === null;
    return {
      caught,
      as_expected: as_said && blamed === undefined,
      said: blamed ?? found ?? problems[0] ?? `nothing: ${cannot ?? ''}`,
    };
  } catch (error) {
    throw new Error(`${manipulation.name}: ${(error as Error).message}`, { cause: error });
  } finally {
    await after?.(copy);
    await copy.drop();
  }
}
