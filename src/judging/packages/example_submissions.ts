/** Reads the example submissions of a package, and the results that each must get. */
import type { TestSet } from '../test_set.ts';
import type { Constants } from './constants.ts';
import { ExpectedResults, type Requirement } from './expected_results.ts';
import type { FileTree } from './file_tree.ts';
import type { PackageBounds } from './package_bounds.ts';
import type { Contents } from './package_contents.ts';
import { PackageProblem, UnknownLanguage } from './package_problem.ts';
import type { ProblemSettings } from './problem_settings.ts';
import {
  filesOfFile,
  filesOfFolder,
  isSource,
  type Program,
  type ProgramFiles,
  readProgram,
  readSource,
} from './programs.ts';
import { toNumber, type YamlReader } from './settings.ts';

export type ExampleSubmission = {
  /** its path below `submissions` */
  path: string;
  /** null where it cannot be run; then `why_not` says why */
  program: Program | null;
  why_not: string | null;
  /** It cannot be run because of its language. This is no mistake of the package. */
  is_foreign: boolean;
  requirements: Requirement[];
  /** Its verdict is one of these: a comment in its source says so, and neither its folder nor anything else counts. */
  verdicts: FinalVerdict[] | null;
  /** It is accepted, and its score is not the best one. */
  partially_accepted: boolean;
};

/** The words behind `@EXPECTED_RESULTS@:`, old and new; an empty list expects nothing. */
const VERDICT_WORDS = {
  CORRECT: ['AC'],
  ACCEPTED: ['AC'],
  'WRONG-ANSWER': ['WA'],
  'NO-OUTPUT': ['WA'],
  TIMELIMIT: ['TLE'],
  'TIME-LIMIT-EXCEEDED': ['TLE'],
  'RUN-ERROR': ['RTE'],
  'RUN-TIME-ERROR': ['RTE'],
  'MEMORY-LIMIT': ['MLE'],
  'OUTPUT-LIMIT': ['OLE'],
  'COMPILER-ERROR': ['CE'],
  'CHECK-MANUALLY': [],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type FinalVerdict = (typeof VERDICT_WORDS)[keyof typeof VERDICT_WORDS][number];

type Reader = {
  tree: FileTree;
  contents: Contents;
  yaml: YamlReader;
  bounds: PackageBounds;
  note(path: string, note: string): void;
};

const METADATA = 'submissions.yaml';

export async function readSubmissions(
  reader: Reader,
  set: TestSet,
  { version, constants }: Pick<ProblemSettings, 'version' | 'constants'>,
): Promise<ExampleSubmission[]> {
  const folder = reader.tree.root.folders.get('submissions');
  if (folder === undefined) return [];
  const expected = new ExpectedResults(
    set,
    version,
    await reader.yaml.read(folder.files.get(METADATA)),
  );
  for (const [name, { path }] of folder.files) {
    if (name !== METADATA)
      reader.note(path, 'it is in no folder of submissions, so it is not used');
  }
  const submissions: ExampleSubmission[] = [];
  for (const [folder_name, { files, folders }] of folder.folders) {
    const programs = [
      ...[...files].map(([name, entry]) => ({ name, ...filesOfFile(entry) })),
      ...[...folders].map(([name, inner]) => ({ name, ...filesOfFolder(inner) })),
    ];
    for (const { name, ...program } of programs) {
      submissions.push(
        await readOne(`${folder_name}/${name}`, program, expected, { ...reader, constants }),
      );
    }
  }
  return submissions.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

async function readOne(
  path: string,
  files: ProgramFiles,
  expected: ExpectedResults,
  { contents, bounds, constants }: Reader & { constants: Constants },
): Promise<ExampleSubmission> {
  const requirements = expected.of(path);
  const partially_accepted = path.startsWith('partially_accepted/');
  const rest = { path, requirements, partially_accepted };
  try {
    const program = await readProgram(files, contents, bounds, {
      ...expected.hintsOf(path),
      constants,
      for_request: true,
    });
    const read = { ...rest, program, why_not: null, is_foreign: false, verdicts: null };
    if (SELF_EXPLANATORY.test(path)) return read;
    const { verdicts, score } = await annotation(files, bounds);
    return score === null
      ? { ...read, verdicts }
      : { ...read, requirements: expected.ofScore(score) };
  } catch (error) {
    if (!(error instanceof PackageProblem)) throw error;
    const is_foreign = error instanceof UnknownLanguage;
    return { ...rest, program: null, why_not: error.message, is_foreign, verdicts: null };
  }
}

/** Folders of the legacy version in which a comment changes nothing. */
const SELF_EXPLANATORY = /^(accepted|wrong_answer|time_limit_exceeded|run_time_error)\//;

type Annotation = { verdicts: FinalVerdict[] | null; score: number | null };

/** The two tags mean the same: words are verdicts, and a number is a score. */
async function annotation(files: ProgramFiles, bounds: PackageBounds): Promise<Annotation> {
  for (const { entry } of files.files.filter(({ entry }) => isSource(entry))) {
    const text = await readSource(entry, bounds);
    const [, line] = /@EXPECTED_(?:RESULTS|SCORE)@:([^\n]*)/.exec(text) ?? [];
    if (line === undefined) continue;
    // The end of a comment.
    const words = line.replace(/\*\/|-->/, '');
    const score = toNumber(words.trim());
    if (score !== null) return { verdicts: null, score };
    const verdicts = words.split(',').flatMap((word) => verdictsOf(word, entry.path));
    return { verdicts, score: null };
  }
  return { verdicts: null, score: null };
}

function verdictsOf(word: string, path: string): readonly FinalVerdict[] {
  const name = word.trim().toUpperCase().replaceAll('_', '-');
  const known = Object.entries(VERDICT_WORDS).find(([key]) => key === name);
  if (known === undefined)
    throw new PackageProblem(path, `@EXPECTED_RESULTS@: ${name} is no known result`);
  return known[1];
}
