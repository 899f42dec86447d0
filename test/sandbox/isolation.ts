/** The isolation that RUNLEDGER_TEST_ISOLATION names; without it, the best that this machine offers. */
import type { IsolationKind, SandboxOptions } from '../../src/executor/sandbox.ts';

const wanted = process.env['RUNLEDGER_TEST_ISOLATION'] as IsolationKind | undefined;

export const ISOLATION: Pick<SandboxOptions, 'isolation'> = wanted ? { isolation: wanted } : {};
