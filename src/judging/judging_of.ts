/**
 * From a request, and the stored set that it names, to the judging of its submission. A checker, an interactor or a
 * comparison in the request takes the place of everything that the set has of these, its arguments and its passes included.
 * Only a comparison in place of an interactor is a clash: the outputs of programs that talk are not to be compared, and who
 * sends a comparison by habit would accept a program that prints the answer and asks nothing.
 */
import type { AcceptedCompare, Compare } from './compare.ts';
import type { Content, JudgedTest, JudgeProgram, Judging } from './judging.ts';
import type { JudgingRequest, RequestProgram, RequestTest } from './packed_request.ts';
import type { SetProgram, SetTest, TestSet } from './test_set.ts';

/** `compare`: of the submission, for a request without a comparison of its own. */
export function judgingOf(
  request: JudgingRequest,
  set: TestSet | null,
  compare: AcceptedCompare = 'lines',
): Judging {
  const { files, stdin_file, stdout_file, outputs, transcript } = request;
  const { compare: asked, checker, interactor } = request;
  const stop = request.stop ?? 'first';
  const common = { files, stdin_file, stdout_file, outputs, transcript, stop };
  const own = {
    compare: asked ?? linesOf(compare),
    checker: checker && programOfRequest(checker),
    interactor: interactor && programOfRequest(interactor),
    passes: 1,
  };
  if (set === null) {
    const tests = request.tests?.map(testOfRequest) ?? null;
    return { ...common, ...own, tests, groups: [], scoring: 'pass-fail', limits: {} };
  }
  const replaced = asked !== null || checker !== null || interactor !== null;
  const { groups, scoring, limits } = set;
  const of_set = {
    compare: set.compare,
    checker: set.checker && programOfSet(set.checker),
    interactor: set.interactor && programOfSet(set.interactor),
    passes: set.passes,
  };
  const args_of = new Map(groups.map(({ name, args }) => [name, args]));
  const tests = set.tests.map((test) => testOfSet(test, args_of.get(test.group) ?? [], replaced));
  const judging = { ...common, ...(replaced ? own : of_set), tests, groups, scoring, limits };
  return asked !== null && set.interactor !== null ? { ...judging, clash: CLASH } : judging;
}

const CLASH =
  'compare: the interactor of the test set judges. Leave out compare, or send a checker or an interactor of your own';

const linesOf = (compare: AcceptedCompare): Compare => (compare === 'lenient' ? 'lines' : compare);

function testOfRequest(test: RequestTest, index: number): JudgedTest {
  const { name, stdin, expected_output, args, limits } = test;
  return {
    name: name ?? String(index + 1),
    group: '',
    input: { bytes: stdin },
    answer: expected_output && { bytes: expected_output },
    args,
    limits,
    compare: null,
    judge_args: [],
  };
}

function testOfSet(test: SetTest, group_args: string[], replaced: boolean): JudgedTest {
  const { name, group, input, answer, args, compare, checker_args } = test;
  return {
    name,
    group,
    input: { file: input },
    answer: { file: answer },
    args: args ?? null,
    limits: {},
    compare: replaced ? null : (compare ?? null),
    judge_args: replaced ? [] : (checker_args ?? group_args),
  };
}

function programOfRequest({ files, ...program }: RequestProgram): JudgeProgram {
  return {
    ...program,
    files: files.map(({ path, bytes }) => ({ path, content: { bytes } satisfies Content })),
    args: [],
    limits: null,
  };
}

function programOfSet({
  language,
  source,
  files,
  protocol,
  args,
  limits,
}: SetProgram): JudgeProgram {
  return {
    language,
    source,
    files: files.map(({ path, file }) => ({ path, content: { file } satisfies Content })),
    protocol,
    args,
    limits: limits ?? null,
  };
}
