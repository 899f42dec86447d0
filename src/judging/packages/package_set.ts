/** Makes the test set of a problem package. */
import type { Compare } from '../compare.ts';
import { compareFromFlags } from '../compare_flags.ts';
import type { Group, SetProgram, SetTest, TestSet } from '../test_set.ts';
import { type DataGroup, isGroup, readData } from './data_groups.ts';
import type { FileTree } from './file_tree.ts';
import type { PackageBounds } from './package_bounds.ts';
import type { Contents, Note } from './package_contents.ts';
import { PackageProblem } from './package_problem.ts';
import { type ProblemSettings, readProblemSettings } from './problem_settings.ts';
import { readProgram } from './programs.ts';
import { assignScores, largestScore } from './scores.ts';
import { noteBounds, withRoomForAnswers } from './service_bounds.ts';
import type { YamlReader } from './settings.ts';
import { readBesideYaml } from './time_limit_files.ts';
import { findValidator, type Validator } from './validators.ts';

export type PackageReader = {
  tree: FileTree;
  /** of a package that does not say its name */
  fallback_name: string;
  contents: Contents;
  yaml: YamlReader;
  bounds: PackageBounds;
  note: Note;
};

export type PackageSet = {
  set: TestSet;
  problem: ProblemSettings;
  /** the score that no submission can beat; null where there is none */
  best_score: number | null;
  /** A scored package of the legacy format: its groups say which tests are run. */
  groups_stop: boolean;
  /** the path of the validator's main source in the package */
  validator_path: string | null;
};

const NOT_SUPPORTED: Readonly<Record<string, string>> = {
  include: 'it is not supported; send its files with each submission',
  static_validator: 'it is not supported; check sources before they are submitted',
};

export async function readPackageSet(reader: PackageReader): Promise<PackageSet> {
  const { root } = reader.tree;
  const settings = readProblemSettings(await reader.yaml.read(root.files.get('problem.yaml')));
  for (const [name, problem] of Object.entries(NOT_SUPPORTED)) {
    const folder = root.folders.get(name);
    if (folder !== undefined) throw new PackageProblem(folder.path, problem);
  }
  const validator = findValidator(root, settings, reader.note);
  const { problem, name } = await withFilesBeside(settings, validator !== null, reader);
  const data = await readData(root, {
    ...reader,
    problem,
    validator_name: validator?.name ?? null,
  });
  const secret = data.items.filter(isGroup).find(({ top }) => top === 'secret');
  if (secret === undefined) throw new PackageProblem('data/secret', 'it is missing');
  if (problem.scoring && data.rules === 'test_group.yaml')
    assignScores(data, secret, problem, validator !== null);
  const program = validator === null ? null : await setProgram(validator, problem, reader);
  const set: TestSet = {
    name: checkedName(problem.name ?? name ?? reader.tree.top_name ?? reader.fallback_name),
    tests: [],
    groups: [],
    limits: problem.limits,
    compare: compareIn(secret, problem, validator),
    checker: problem.interactive ? null : program,
    interactor: problem.interactive ? program : null,
    passes: problem.passes,
    scoring: problem.scoring ? 'score' : 'pass-fail',
  };
  checkTexts(data, reader.bounds);
  const { contents, note } = reader;
  await addGroup(set, data, null, { contents, note, compareBy: comparing(problem, set.compare) });
  noteBounds(problem.limits, reader.note);
  if (program?.limits !== undefined) {
    noteBounds(program.limits, (path, note) => reader.note(path, `for the validator: ${note}`));
  }
  const best_score = largestScore(secret, data, problem);
  const groups_stop = problem.scoring && data.rules === 'testdata.yaml';
  const main = validator?.files.find(({ path }) => path === program?.source);
  const validator_path = main?.entry.path ?? null;
  const roomy = withRoomForAnswers(set, reader.note);
  return { set: roomy, problem, best_score, groups_stop, validator_path };
}

/** With the time limit in force, and a name of last resort. */
async function withFilesBeside(
  problem: ProblemSettings,
  has_validator: boolean,
  reader: PackageReader,
): Promise<{ problem: ProblemSettings; name: string | null }> {
  const { limits } = problem;
  const in_yaml_ms = limits.cpu_time_ms ?? null;
  const beside = await readBesideYaml(reader.tree.root, has_validator, in_yaml_ms, reader);
  const { name, cpu_time_ms } = beside;
  if (cpu_time_ms === null) return { problem, name };
  return { problem: { ...problem, limits: { ...limits, cpu_time_ms } }, name };
}

async function setProgram(
  validator: Validator,
  problem: ProblemSettings,
  reader: PackageReader,
): Promise<SetProgram> {
  const { constants } = problem;
  const program = await readProgram(validator, reader.contents, reader.bounds, { constants });
  const own_limits = Object.keys(problem.validator_limits).length > 0;
  return {
    ...program,
    protocol: 'icpc',
    args: problem.validator_flags,
    ...(own_limits ? { limits: problem.validator_limits } : {}),
  };
}

async function addGroup(
  set: TestSet,
  group: DataGroup,
  parent: string | null,
  tools: { contents: Contents; note: Note; compareBy: Comparing },
): Promise<void> {
  const { contents, note, compareBy } = tools;
  const { settings } = group;
  const judged = set.checker ?? set.interactor;
  const added: Group = {
    name: group.name,
    parent,
    ...settings.group,
    args: judged === null ? [] : settings.validator_args,
  };
  set.groups.push(added);
  for (const item of group.items) {
    if (isGroup(item)) {
      await addGroup(set, item, group.name, tools);
      continue;
    }
    const test: SetTest = {
      name: item.name,
      group: group.name,
      input: await contents.addText(item.input, note),
      answer: await contents.addText(item.answer, note),
      ...(item.args.length > 0 ? { args: item.args } : {}),
    };
    const args = item.validator_args ?? settings.validator_args;
    if (judged === null) {
      const compare = compareBy(args, item.path);
      if (compare !== null) test.compare = compare;
    } else if (item.validator_args !== null) {
      test.checker_args = item.validator_args;
    }
    set.tests.push(test);
  }
}

function checkTexts(data: DataGroup, { set_text_bytes, required_names }: PackageBounds): void {
  let left = set_text_bytes;
  let names_left = required_names;
  const take = (path: string, ...texts: readonly string[]) => {
    // An empty text takes time, too, and a short file can have many of them, which stand for each test.
    for (const text of texts) {
      left -= Buffer.byteLength(text) + 1;
      if (left < 0) break;
    }
    if (left >= 0) return;
    throw new PackageProblem(
      path,
      `with it the names and arguments of all tests have more than ${set_text_bytes} bytes, counting one more for each`,
    );
  };
  const visit = (group: DataGroup) => {
    const required = group.settings.group.require_pass ?? [];
    names_left -= required.length;
    if (names_left < 0) {
      throw new PackageProblem(
        group.path,
        `with it the groups name more than ${required_names} others in require_pass`,
      );
    }
    take(group.path, group.name, ...required, ...group.settings.validator_args);
    for (const item of group.items) {
      if (isGroup(item)) visit(item);
      else take(item.path, item.name, ...item.args, ...(item.validator_args ?? []));
    }
  };
  visit(data);
}

/** The comparison of the group `secret` is the set's; a test that has another one says so. */
function compareIn(
  secret: DataGroup,
  problem: ProblemSettings,
  validator: Validator | null,
): Compare {
  const args =
    validator === null ? [...problem.validator_flags, ...secret.settings.validator_args] : [];
  return compareOf(args, problem, secret.path);
}

type Comparing = (args: readonly string[], path: string) => Compare | null;

/** Null where it is the set's. The tests of a group share one list of arguments, which is read once and not for each. */
function comparing(problem: ProblemSettings, of_set: Compare): Comparing {
  const known = new Map<readonly string[], Compare | null>();
  return (args, path) => {
    const found = known.get(args);
    if (found !== undefined) return found;
    const compare = compareOf([...problem.validator_flags, ...args], problem, path);
    const own = JSON.stringify(compare) === JSON.stringify(of_set) ? null : compare;
    known.set(args, own);
    return own;
  };
}

function compareOf(args: readonly string[], { version }: ProblemSettings, path: string): Compare {
  const read = compareFromFlags(args, version === 'legacy' ? 'legacy' : '2023-07');
  if (read.compare === undefined) throw new PackageProblem(path, read.problem);
  return read.compare;
}

const LONGEST_NAME = 255;

function checkedName(name: string): string {
  if (name.length > LONGEST_NAME || /\p{C}/u.test(name)) {
    throw new PackageProblem(
      'problem.yaml',
      `name: must be one line of at most ${LONGEST_NAME} characters`,
    );
  }
  return name;
}
