/**
 * Every verdict, with the status of a submission that gets it. Types, answer schemas, the schemas of events, the OpenAPI
 * document, the page and the client derive from this list; test/domain/verdicts.test.ts holds README and SQL to it.
 * How a verdict is decided is in verdict.ts.
 */
import type { EndedStatus } from './statuses.ts';

export const VERDICTS = {
  AC: {
    status: 'completed',
    meaning: 'exit code 0 within all limits, and the expected output if one was given',
  },
  WA: { status: 'completed', meaning: 'exit code 0, but not the expected output' },
  RE: { status: 'completed', meaning: 'an exit code other than 0' },
  SIG: { status: 'completed', meaning: 'ended by a signal that the service did not send' },
  TLE: { status: 'completed', meaning: 'over the limit of CPU time or wall time' },
  MLE: { status: 'completed', meaning: 'over the memory limit' },
  OLE: { status: 'completed', meaning: 'over the output limit' },
  CE: { status: 'completed', meaning: 'rejected by the compiler' },
  IE: {
    status: 'error',
    meaning: 'the service could not run or judge the program; this says nothing about the program',
  },
} as const satisfies Readonly<Record<string, { status: EndedStatus; meaning: string }>>;

export type Verdict = keyof typeof VERDICTS;

/** The verdicts of submissions that end with a status. */
export type VerdictWith<S extends EndedStatus> = {
  [V in Verdict]: (typeof VERDICTS)[V]['status'] extends S ? V : never;
}[Verdict];

export const VERDICT_NAMES = Object.keys(VERDICTS) as [Verdict, ...Verdict[]];

export function verdictsWith<S extends EndedStatus>(
  status: S,
): [VerdictWith<S>, ...VerdictWith<S>[]] {
  const names = VERDICT_NAMES.filter((name) => VERDICTS[name].status === status);
  return names as string[] as [VerdictWith<S>, ...VerdictWith<S>[]];
}
