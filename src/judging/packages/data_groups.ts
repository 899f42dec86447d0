/** Reads the folder `data`: which tests there are, in which groups, and the settings of each. */
import type { Entry } from './entry_source.ts';
import { type Folder, filesBelow, pathIn } from './file_tree.ts';
import {
  type GroupPlace,
  type GroupRules,
  type GroupSettings,
  readGroupSettings,
  readTestSettings,
} from './group_settings.ts';
import { PackageProblem } from './package_problem.ts';
import type { ProblemSettings } from './problem_settings.ts';
import type { YamlReader } from './settings.ts';

export type DataGroup = {
  /** its path below `data`, or `data` */
  name: string;
  path: string;
  top: 'sample' | 'secret' | null;
  settings: GroupSettings;
  /** in the order in which they run */
  items: (DataTest | DataGroup)[];
};

export type DataTest = {
  name: string;
  path: string;
  input: Entry;
  answer: Entry;
  args: string[];
  /** null where the group's hold */
  validator_args: string[] | null;
};

export const isGroup = (item: DataTest | DataGroup): item is DataGroup => 'items' in item;

export function testsOf(group: DataGroup): DataTest[] {
  return group.items.flatMap((item) => (isGroup(item) ? testsOf(item) : [item]));
}

export type DataReader = {
  rules: GroupRules;
  problem: ProblemSettings;
  validator_name: string | null;
  yaml: YamlReader;
  /** Says of a file that it is not used. */
  note(path: string, note: string): void;
};

const TOPS = ['sample', 'secret'] as const;
/** Examples of what a validator must reject or accept, and the names that tools used for them. */
const FOR_VALIDATORS = /^((in)?valid_(input|output|answer)s?|bad)$/;

export async function readData(
  root: Folder,
  without_rules: Omit<DataReader, 'rules'>,
): Promise<DataGroup & { rules: GroupRules }> {
  const data = root.folders.get('data');
  const secret = data?.folders.get('secret');
  if (data === undefined || secret === undefined) {
    throw new PackageProblem(pathIn(root, 'data/secret'), 'it is missing');
  }
  for (const folder of data.folders.values()) {
    const name = nameOf(folder);
    if (FOR_VALIDATORS.test(name) || TOPS.some((top) => top === name)) continue;
    const has_tests = filesBelow(folder).some((entry) => isOfTest(entry));
    if (has_tests)
      throw new PackageProblem(folder.path, 'data has the folders sample and secret only');
    without_rules.note(folder.path, 'it is not used');
  }
  const rules = rulesOf(data, without_rules.problem);
  const reader: DataReader = { ...without_rules, rules };
  const group = {
    rules,
    name: 'data',
    path: data.path,
    top: null,
    settings: await settingsOf(data, { ...reader, top: null, parent: null }, reader),
    items: [] as DataGroup[],
  };
  for (const entry of filesBesideSettings(data)) {
    if (isOfTest(entry)) throw new PackageProblem(entry.path, 'it is in no group');
    reader.note(entry.path, 'it is not used');
  }
  for (const top of TOPS) {
    const folder = data.folders.get(top);
    if (folder !== undefined)
      group.items.push(await readGroup(folder, top, { top, parent: group.settings }, reader));
  }
  const [first] = group.items.flatMap((item) => (item.top === 'secret' ? testsOf(item) : []));
  if (first === undefined) throw new PackageProblem(secret.path, 'it has no test');
  return group;
}

function rulesOf(data: Folder, { version }: ProblemSettings): GroupRules {
  if (version === 'legacy') return 'testdata.yaml';
  const old =
    version === '2023-07' && filesBelow(data).some(({ path }) => path.endsWith('/testdata.yaml'));
  return old ? 'testdata.yaml' : 'test_group.yaml';
}

const isOfTest = ({ path }: Entry) => /\.(in|ans)$/.test(path);

type Inherited = Pick<GroupPlace, 'top' | 'parent'>;

async function readGroup(
  folder: Folder,
  name: string,
  inherited: Inherited,
  reader: DataReader,
): Promise<DataGroup> {
  const settings = await settingsOf(folder, { ...reader, ...inherited }, reader);
  const items: (DataTest | DataGroup)[] = await readTests(folder, name, settings, reader);
  for (const [inner_name, inner] of folder.folders) {
    if (/\.(files|download)$/.test(inner_name)) rejectFiles(inner);
    else
      items.push(
        ...(await readInner(
          inner,
          `${name}/${inner_name}`,
          { ...inherited, parent: settings },
          reader,
        )),
      );
  }
  return { name, path: folder.path, top: inherited.top, settings, items: inOrder(items) };
}

function rejectFiles(folder: Folder): void {
  if (folder.path.endsWith('.files'))
    throw new PackageProblem(
      folder.path,
      'files of a test are not supported; put what they say into the input',
    );
}

/** Since 2025-09, only a folder directly in `secret` is a group, and deeper folders are part of its tests' names. */
async function readInner(
  folder: Folder,
  name: string,
  inherited: Inherited,
  reader: DataReader,
): Promise<(DataTest | DataGroup)[]> {
  if (!isUsed(folder.path, nameOf(folder), reader)) return [];
  if (reader.problem.version !== 'legacy' && inherited.top === 'sample') {
    throw new PackageProblem(folder.path, 'data/sample has no groups');
  }
  const group = await readGroup(folder, name, inherited, reader);
  const is_group = reader.problem.version !== '2025-09' || name.split('/').length === 2;
  if (is_group) return [group];
  const file = folder.files.get('test_group.yaml');
  if (file !== undefined) throw new PackageProblem(file.path, 'a group has no groups');
  return group.items;
}

const SETTINGS_FILES = ['test_group.yaml', 'testdata.yaml'];

async function settingsOf(
  folder: Folder,
  place: GroupPlace,
  reader: DataReader,
): Promise<GroupSettings> {
  for (const name of SETTINGS_FILES) {
    const file = folder.files.get(name);
    if (file === undefined || name === reader.rules) continue;
    throw new PackageProblem(file.path, `the groups of this package have ${reader.rules} instead`);
  }
  const file = folder.files.get(reader.rules);
  const { constants } = reader.problem;
  return readGroupSettings(await reader.yaml.read(file, folder.path, constants), place);
}

const filesBesideSettings = ({ files }: Folder) =>
  [...files].filter(([name]) => !SETTINGS_FILES.includes(name)).map(([, entry]) => entry);

/** Files of a test for people alone. */
const FOR_PEOPLE = [
  ...['hint', 'desc', 'png', 'jpg', 'jpeg', 'svg', 'interaction', 'out', 'statement', 'download'],
  ...['in.statement', 'ans.statement', 'in.download', 'ans.download'],
];

async function readTests(
  folder: Folder,
  group: string,
  settings: GroupSettings,
  reader: DataReader,
): Promise<DataTest[]> {
  const tests: DataTest[] = [];
  for (const entry of filesBesideSettings(folder)) {
    const [, base = '', ending] = /^(.*)\.([^.]+)$/.exec(nameOf(entry)) ?? [];
    const beside = (other: string) => folder.files.get(`${base}.${other}`);
    if (ending === 'in') {
      if (!isUsed(entry.path, base, reader)) continue;
      if (folder.folders.has(base))
        throw new PackageProblem(entry.path, 'there is a folder of the same name');
      if (SETTINGS_FILES.includes(`${base}.yaml`)) {
        throw new PackageProblem(
          entry.path,
          'a test of this name would share its settings with the group',
        );
      }
      const answer = beside('ans');
      if (answer === undefined) {
        const other = beside('out');
        const hint = other === undefined ? '' : `: rename ${other.path} to ${base}.ans`;
        throw new PackageProblem(entry.path, `it has no answer (.ans)${hint}`);
      }
      tests.push(
        await readTest(entry, answer, `${group}/${base}`, beside('yaml'), settings, reader),
      );
    } else if (ending === 'ans' || (ending === 'yaml' && reader.problem.version !== 'legacy')) {
      if (beside('in') === undefined) throw new PackageProblem(entry.path, 'it has no input (.in)');
    } else if (ending === 'args') {
      throw new PackageProblem(
        entry.path,
        'a file of arguments is not supported; use args in a .yaml file',
      );
    } else if (!FOR_PEOPLE.some((known) => nameOf(entry).endsWith(`.${known}`))) {
      reader.note(entry.path, 'it is not used');
    }
  }
  return tests;
}

async function readTest(
  input: Entry,
  answer: Entry,
  name: string,
  file: Entry | undefined,
  group: GroupSettings,
  reader: DataReader,
): Promise<DataTest> {
  const test = { name, path: input.path, input, answer };
  if (reader.problem.version === 'legacy') return { ...test, args: [], validator_args: null };
  const { args, validator_args } = readTestSettings(
    await reader.yaml.read(file, input.path),
    reader.problem.version,
  );
  return { ...test, args: args ?? group.program_args, validator_args };
}

/** Lexicographical order of the names, without endings, tests and groups together. */
function inOrder(items: (DataTest | DataGroup)[]): (DataTest | DataGroup)[] {
  return items.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
}

/** The newer versions say to behave as if what has another name were not there. */
function isUsed(path: string, name: string, reader: DataReader): boolean {
  if (/^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$/.test(name)) return true;
  const rule =
    'a name has only letters, digits, period, dash and underscore, and starts with none of . and -';
  if (reader.problem.version === 'legacy') throw new PackageProblem(path, rule);
  reader.note(path, `it is not used: ${rule}`);
  return false;
}

const nameOf = ({ path }: { path: string }) => path.slice(path.lastIndexOf('/') + 1);
