/**
 * The problem packages in test/judging/problems, judged by the bare commands of this machine: every example submission gets
 * what its package expects, and one that is put into a wrong folder does not. test/cli/problem_check.test.ts judges the
 * same packages with the service.
 */
// needs: java
import { cp, mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackageWithSubmissions } from '../../src/judging/packages/read_package.ts';
import {
  checkSubmission,
  type JudgedSubmission,
} from '../../src/judging/packages/submission_check.ts';
import { BareJudge } from './bare_judge.ts';
import { Keeper, temporaryFolder } from './packages.ts';
import { PROBLEMS, type Problem, problemFolder } from './problems.ts';

/** By problem and program. Each is judged once: that takes the most time here by far. One that is to be late gets more time. */
const judged = new Map<string, JudgedSubmission>();

async function differences(t: Test, folder: string, { name, named = {} }: Problem) {
  const keeper = new Keeper();
  const read = await readPackageWithSubmissions(folder, DEFAULT_PACKAGE_BOUNDS, keeper.onFile);
  const bytes = (sha256: string) => read.sources.get(sha256) ?? keeper.kept.get(sha256)!;
  const judge = await BareJudge.open(read, bytes, named);
  t.teardown(() => judge.close());
  const found = new Map<string, string[]>();
  for (const submission of read.submissions) {
    const is_late = submission.path.startsWith('time_limit_exceeded/');
    const key = JSON.stringify([name, is_late, submission.program]);
    const got = judged.get(key) ?? (await judge.judge(submission));
    judged.set(key, got);
    found.set(submission.path, checkSubmission(submission, got, read).differences);
  }
  return { read, found };
}

for (const problem of PROBLEMS) {
  t.test(`${problem.name}: every submission gets what is expected`, async (t) => {
    const { read, found } = await differences(t, problemFolder(problem), problem);
    t.strictSame(read.notes, []);
    t.ok(found.size >= 2, 'it has submissions');
    for (const [path, lines] of found) t.strictSame(lines, [], path);
  });
}

t.test('a submission in the wrong folder is named, and the others are not', async (t) => {
  for (const problem of PROBLEMS.filter(({ misplaced }) => misplaced !== undefined)) {
    const folder = join(await temporaryFolder(t), problem.name);
    await cp(problemFolder(problem), folder, { recursive: true });
    const { from, to, line } = problem.misplaced!;
    await mkdir(dirname(join(folder, 'submissions', to)), { recursive: true });
    await rename(join(folder, 'submissions', from), join(folder, 'submissions', to));
    const { found } = await differences(t, folder, problem);
    t.ok(found.has(to), `${problem.name}: ${to} is judged`);
    for (const [path, lines] of found) {
      if (path === to) t.match(lines[0], line, `${problem.name}: ${path}`);
      else t.strictSame(lines, [], `${problem.name}: ${path}`);
    }
  }
});
