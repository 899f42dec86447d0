/** The result record as the OpenAPI document describes it: the answer of several calls. */
import * as v from 'valibot';
import type { CompileRecord, ResultRecord } from '../../domain/record.ts';
import { STATUS_NAMES, STATUSES } from '../../domain/statuses.ts';
import { VERDICT_NAMES, VERDICTS } from '../../domain/verdicts.ts';
import { BY_NAME } from '../../languages/common/registry.ts';
import { EXAMPLE_ID } from './operation.ts';

export const uuid = v.pipe(v.string(), v.metadata({ format: 'uuid' }));
export const whole = v.pipe(v.number(), v.integer());
const time = v.pipe(v.string(), v.metadata({ format: 'date-time' }));
const secondsOf = (what: string) =>
  v.pipe(v.nullable(v.number()), v.description(`${what}, seconds with microsecond resolution.`));

function meanings(list: Readonly<Record<string, { meaning: string }>>): string {
  const all = Object.entries(list).map(([name, { meaning }]) => `${name}: ${meaning}`);
  return `${all.join('; ')}.`;
}

const COMPILE = v.strictObject({
  cpu_time: secondsOf('CPU time of the compiler'),
  wall_time: secondsOf('Elapsed time of the compiler'),
  memory_peak: v.nullable(whole),
  exit_code: v.nullable(whole),
  cached: v.pipe(
    v.boolean(),
    v.description(
      'Nothing was compiled for this submission: an equal source of the account was compiled before, or at the same moment.',
    ),
  ),
} satisfies Record<keyof CompileRecord, v.GenericSchema>);

export const RESULT = v.strictObject({
  id: uuid,
  status: v.pipe(v.picklist(STATUS_NAMES), v.description(meanings(STATUSES))),
  verdict: v.pipe(v.nullable(v.picklist(VERDICT_NAMES)), v.description(meanings(VERDICTS))),
  exit_code: v.pipe(
    v.nullable(whole),
    v.description('128 + N for a program that was ended by signal N.'),
  ),
  signal: v.pipe(v.nullable(v.string()), v.description('Its name, as in SIGSEGV.')),
  stdout: v.pipe(
    v.nullable(v.string()),
    v.description('UTF-8, with U+FFFD for other bytes; with encoding=base64 the exact bytes.'),
  ),
  stderr: v.pipe(
    v.nullable(v.string()),
    v.description('As stdout; with verdict CE the messages of the compiler.'),
  ),
  stdout_truncated: v.nullable(v.boolean()),
  stderr_truncated: v.nullable(v.boolean()),
  cpu_time: secondsOf('User and system time of every process of the run'),
  wall_time: secondsOf('Elapsed time of the run'),
  memory_peak: v.pipe(v.nullable(whole), v.description('Bytes, of the run.')),
  compile: v.pipe(v.nullable(COMPILE), v.description('Null for a language that is not compiled.')),
  language: v.pipe(
    v.picklist([...BY_NAME.keys()]),
    v.description('The canonical name; a record may have a language that is off now.'),
  ),
  created_at: time,
  started_at: v.nullable(time),
  completed_at: v.nullable(time),
  attempts: v.pipe(
    v.number(),
    v.integer(),
    v.description('Executions started; more than one if a worker was lost.'),
  ),
} satisfies Record<keyof ResultRecord, v.GenericSchema>);

type Result = v.InferOutput<typeof RESULT>;

export const COMPLETED: Result = {
  id: EXAMPLE_ID,
  status: 'completed',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: '42\n',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time: 0.009214,
  wall_time: 0.011873,
  memory_peak: 7_340_032,
  compile: null,
  language: 'python',
  created_at: '2026-11-20T09:22:23.104Z',
  started_at: '2026-11-20T09:22:23.106Z',
  completed_at: '2026-11-20T09:22:23.119Z',
  attempts: 1,
};

const nothingYet = Object.fromEntries(Object.keys(COMPLETED).map((name) => [name, null]));

export const PENDING = {
  ...nothingYet,
  id: EXAMPLE_ID,
  status: 'pending',
  language: 'python',
  created_at: COMPLETED.created_at,
  attempts: 0,
};
