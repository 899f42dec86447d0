/** The problem packages in test/judging/problems, in real boxes: every example submission gets what its package expects. */
// needs: java
import t from 'tap';
import { requestOfProgram } from '../../src/cli/program_request.ts';
import { judgingOf } from '../../src/judging/judging_of.ts';
import type { ExampleSubmission } from '../../src/judging/packages/example_submissions.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import {
  type CheckedPackage,
  readPackageWithSubmissions,
} from '../../src/judging/packages/read_package.ts';
import { checkSubmission } from '../../src/judging/packages/submission_check.ts';
import { NOT_JUDGED } from '../../src/judging/packed_request.ts';
import { PROBLEMS, type Problem, problemFolder } from '../judging/problems.ts';
import { anExecutor, PATIENT, PLAIN } from './an_executor.ts';
import { contentStore } from './judgings.ts';

const store = contentStore();
const { run, faults } = await anExecutor(t, {
  switches: PLAIN,
  policy: PATIENT,
  fetch: store.fetch,
});

async function read(problem: Problem): Promise<CheckedPackage> {
  const folder = problemFolder(problem);
  return await readPackageWithSubmissions(folder, DEFAULT_PACKAGE_BOUNDS, async (_, bytes) => {
    store.put(Buffer.concat(await Array.fromAsync(bytes)));
  });
}

async function judged(
  { name, named = {} }: Problem,
  read: CheckedPackage,
  { path, program }: ExampleSubmission,
) {
  if (program === null) throw new Error(`${name}: ${path} has no program`);
  const { language, code, files = [] } = requestOfProgram(program, read.sources);
  const request = {
    ...NOT_JUDGED,
    files: files.map(({ path, content_base64 }) => ({
      path,
      bytes: Buffer.from(content_base64 ?? '', 'base64'),
    })),
    stop: read.set.scoring === 'score' ? ('first' as const) : ('never' as const),
    stdin_file: named.stdin_file ?? null,
    stdout_file: named.stdout_file ?? null,
  };
  // Only a program that is to be too slow meets a limit of time.
  const cpu_time_ms = path.startsWith('time_limit_exceeded/') ? 300 : 15_000;
  const { verdict, judged } = await run(language, code, {
    judging: judgingOf(request, read.set),
    limits: { cpu_time_ms, wall_time_ms: 30_000 },
  });
  return { verdict, score: judged!.score, tests: judged!.tests };
}

for (const problem of PROBLEMS) {
  t.test(`${problem.name}: every submission gets what is expected`, async (t) => {
    const found = await read(problem);
    for (const submission of found.submissions) {
      const got = await judged(problem, found, submission);
      const { differences } = checkSubmission(submission, got, found);
      t.strictSame(differences, [], `${submission.path}: ${got.verdict} ${got.score ?? ''}`);
    }
    t.strictSame(faults, []);
  });
}
