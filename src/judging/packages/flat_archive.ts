/** Makes the test set of a flat archive: NAME.in and NAME.ans, and nothing else. */
import type { TestSet } from '../test_set.ts';
import type { Folder } from './file_tree.ts';
import type { Contents, Note } from './package_contents.ts';
import { ARCHIVE, PackageProblem } from './package_problem.ts';

const GROUP = 'data';

export async function readFlatSet(
  root: Folder,
  name: string,
  contents: Contents,
  note: Note,
): Promise<TestSet> {
  const names = [...root.files.keys()]
    .filter((file) => file.endsWith('.in'))
    .map((file) => file.slice(0, -'.in'.length));
  checkOthers(root);
  if (names.length === 0)
    throw new PackageProblem(
      ARCHIVE,
      'it has neither problem.yaml nor a test (NAME.in with NAME.ans)',
    );
  const set: TestSet = {
    name,
    tests: [],
    groups: [
      {
        name: GROUP,
        parent: null,
        on_reject: 'break',
        aggregation: 'sum',
        accept_score: 1,
        reject_score: 0,
        args: [],
      },
    ],
    limits: {},
    compare: 'lines',
    checker: null,
    interactor: null,
    passes: 1,
    scoring: 'pass-fail',
  };
  for (const test of names.toSorted()) {
    const input = root.files.get(`${test}.in`);
    const answer = root.files.get(`${test}.ans`);
    if (input === undefined || answer === undefined) {
      throw new PackageProblem(input?.path ?? test, 'it has no answer (.ans)');
    }
    set.tests.push({
      name: test,
      group: GROUP,
      input: await contents.addText(input, note),
      answer: await contents.addText(answer, note),
    });
  }
  return set;
}

function checkOthers(root: Folder): void {
  for (const [name, { path }] of root.files) {
    if (name === '.in') throw new PackageProblem(path, 'it has no name');
    if (name.endsWith('.in')) continue;
    if (name.endsWith('.out')) {
      const right = `${name.slice(0, -'.out'.length)}.ans`;
      throw new PackageProblem(path, `an answer is called NAME.ans: rename it to ${right}`);
    }
    if (!name.endsWith('.ans')) {
      throw new PackageProblem(
        path,
        'without problem.yaml, a package has only NAME.in and NAME.ans',
      );
    }
    if (!root.files.has(`${name.slice(0, -'.ans'.length)}.in`)) {
      throw new PackageProblem(path, 'it has no input (.in)');
    }
  }
  const [folder] = root.folders.values();
  if (folder !== undefined) {
    throw new PackageProblem(folder.path, 'without problem.yaml, a package has no folders');
  }
}
