/** The shapes of answers, for the OpenAPI document; a test holds what is sent against them. */
import * as v from 'valibot';
import { BY_NAME } from '../languages/shared/registry.ts';
import { PROBLEM_WORDS, type ProblemWord } from './problem.ts';

const uuid = v.pipe(v.string(), v.metadata({ format: 'uuid' }));
const time = v.pipe(v.string(), v.metadata({ format: 'date-time' }));
const secondsOf = (what: string) =>
  v.pipe(v.nullable(v.number()), v.description(`${what}, seconds with microsecond resolution.`));

export const ACCEPTED = v.strictObject({
  id: v.pipe(uuid, v.description('Ask for the result under it: GET /api/result/{id}.')),
});

export const VERDICTS = ['AC', 'WA', 'RE', 'SIG', 'TLE', 'MLE', 'OLE', 'CE', 'IE'] as const;
export const STATUSES = ['pending', 'running', 'completed', 'error'] as const;

export const RESULT = v.strictObject({
  id: uuid,
  status: v.pipe(
    v.picklist(STATUSES),
    v.description('error: the service failed for good, not the program.'),
  ),
  verdict: v.pipe(
    v.nullable(v.picklist(VERDICTS)),
    v.description(
      'AC accepted, WA wrong output, RE exit code not 0, SIG ended by a signal, TLE over a time limit, MLE over the memory limit, OLE over the output limit, CE did not compile, IE the service failed.',
    ),
  ),
  exit_code: v.pipe(
    v.nullable(v.pipe(v.number(), v.integer())),
    v.description('128 + N for a program that signal N ended.'),
  ),
  signal: v.pipe(v.nullable(v.string()), v.description('Its name, as in SIGSEGV.')),
  stdout: v.pipe(
    v.nullable(v.string()),
    v.description('UTF-8, what is no UTF-8 as U+FFFD; with encoding=base64 the exact bytes.'),
  ),
  stderr: v.pipe(v.nullable(v.string()), v.description('As stdout; of the compiler in a CE.')),
  stdout_truncated: v.nullable(v.boolean()),
  stderr_truncated: v.nullable(v.boolean()),
  cpu_time: secondsOf('User and system time of every process of the run'),
  wall_time: secondsOf('Elapsed time of the run'),
  memory_peak: v.pipe(
    v.nullable(v.pipe(v.number(), v.integer())),
    v.description('Bytes, of the run.'),
  ),
  compile: v.pipe(
    v.nullable(
      v.strictObject({
        cpu_time: secondsOf('CPU time of the compiler'),
        wall_time: secondsOf('Elapsed time of the compiler'),
        memory_peak: v.nullable(v.pipe(v.number(), v.integer())),
        exit_code: v.nullable(v.pipe(v.number(), v.integer())),
        cached: v.pipe(v.boolean(), v.description('An equal source had been compiled before.')),
      }),
    ),
    v.description('Null for a language that is not compiled.'),
  ),
  language: v.pipe(
    v.picklist([...BY_NAME.keys()]),
    v.description(
      'The canonical name; of what is known, since a record outlives the list of what is on.',
    ),
  ),
  created_at: time,
  started_at: v.nullable(time),
  completed_at: v.nullable(time),
  attempts: v.pipe(
    v.number(),
    v.integer(),
    v.description('Executions begun; more than one where a worker was lost.'),
  ),
});

export const languagesSchema = (on: readonly string[]) =>
  v.strictObject({
    languages: v.pipe(v.array(v.picklist(on)), v.description('What workers can run now.')),
  });

export const HEALTH = v.strictObject({
  status: v.pipe(
    v.picklist(['ok', 'degraded']),
    v.description('degraded: no worker is alive, or one runs with weaker isolation.'),
  ),
  queue: v.strictObject({
    pending: v.pipe(v.number(), v.integer(), v.description('Submissions that wait.')),
    running: v.pipe(v.number(), v.integer()),
    capacity: v.pipe(v.number(), v.integer(), v.description('So many may wait; then 503.')),
  }),
  workers: v.strictObject({
    alive: v.pipe(v.number(), v.integer()),
    slots: v.pipe(v.number(), v.integer(), v.description('Programs that can run at once.')),
  }),
  isolation: v.strictObject({ kinds: v.array(v.string()), degraded: v.boolean() }),
  languages: v.array(v.string()),
});

export const PROBE = v.strictObject({ status: v.picklist(['live', 'ready']) });

export const PROBLEM = v.strictObject({
  error: v.pipe(
    v.picklist(PROBLEM_WORDS as [ProblemWord, ...ProblemWord[]]),
    v.description('A stable word: programs decide by it.'),
  ),
  message: v.pipe(v.string(), v.description('For people.')),
  fields: v.exactOptional(
    v.pipe(
      v.array(
        v.strictObject({
          path: v.pipe(
            v.string(),
            v.description(
              'A field (limits.memory, args[2]), a parameter (?wait), a header (idempotency-key), or empty for the body as a whole.',
            ),
          ),
          message: v.string(),
        }),
      ),
      v.description('With invalid_request: everything that is at fault.'),
    ),
  ),
  id: v.exactOptional(v.pipe(uuid, v.description('With timeout: the submission, which goes on.'))),
});
