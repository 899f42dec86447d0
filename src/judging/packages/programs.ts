/** Reads a program of a package: a validator or an example submission, which is a file or a folder. */
import type { Language } from '../../languages/common/language.ts';
import { LANGUAGES } from '../../languages/common/registry.ts';
import type { SetProgram } from '../test_set.ts';
import { type Constants, NO_CONSTANTS } from './constants.ts';
import type { Entry } from './entry_source.ts';
import { type Folder, filesBelow } from './file_tree.ts';
import { NAME_BYTES, type PackageBounds } from './package_bounds.ts';
import type { Contents } from './package_contents.ts';
import { PackageProblem, UnknownLanguage } from './package_problem.ts';
import { readWhole, withConstants } from './settings.ts';

export type ProgramFiles = {
  /** its file or folder, for messages */
  path: string;
  files: readonly { path: string; entry: Entry }[];
};

/** The settings of a program in submissions.yaml. They go before what its files suggest. */
export type ProgramHints = { language?: string | null; main?: string | null };

export type Program = Pick<SetProgram, 'language' | 'source' | 'files'>;

/** Files that are no source themselves, such as headers, belong to the program of a file, too. */
export function filesOfFile(main: Entry, others: readonly Entry[] = []): ProgramFiles {
  return {
    path: main.path,
    files: [main, ...others].map((entry) => ({ path: baseName(entry), entry })),
  };
}

export function filesOfFolder(folder: Folder): ProgramFiles {
  const start = folder.path === '' ? 0 : folder.path.length + 1;
  const files = filesBelow(folder).map((entry) => ({ path: entry.path.slice(start), entry }));
  return { path: folder.path, files };
}

export async function readProgram(
  program: ProgramFiles,
  contents: Contents,
  bounds: PackageBounds,
  {
    constants = NO_CONSTANTS,
    for_request = false,
    ...hints
  }: ProgramHints & {
    constants?: Constants;
    /** It is sent as `code` and `files`, so its main source is in the work folder itself. */
    for_request?: boolean;
  } = {},
): Promise<Program> {
  const wrong = (problem: string) => new PackageProblem(program.path, problem);
  if (program.files.length > bounds.program_files) {
    throw wrong(`a program has at most ${bounds.program_files} files`);
  }
  const bytes = program.files.reduce((sum, { entry }) => sum + entry.size, 0);
  const too_large = () => wrong(`a program has at most ${bounds.program_bytes} bytes`);
  if (bytes > bounds.program_bytes) throw too_large();
  const paths = program.files.map(({ path }) => path);
  if (paths.some((path) => Buffer.byteLength(path) > NAME_BYTES)) {
    throw wrong(`a path in a program has at most ${NAME_BYTES} bytes`);
  }
  const language = languageOf(program.path, paths, hints);
  const { artefact = null } = language;
  const inside = paths.find((path) => artefact !== null && path.startsWith(`${artefact}/`));
  if (inside !== undefined)
    throw wrong(`${inside} is within ${artefact}, which is the name of the compiled program`);
  const source = mainOf(paths, language, { ...hints, for_request }, wrong);
  if (for_request && paths.length > 1 && source.includes('/')) throw wrong(tooDeep(source));
  const main = program.files.find(({ path }) => path === source);
  if (main !== undefined) {
    const text = await readSource(main.entry, bounds);
    const { old_version } = language;
    if (old_version?.beginning.test(text))
      throw new UnknownLanguage(program.path, `${old_version.title} is not supported`);
  }
  const replaced: ProgramFiles['files'][number][] = [];
  let replaced_bytes = 0;
  for (const { path, entry } of program.files) {
    const file = await withConstants(entry, constants, bounds.program_bytes);
    replaced_bytes += file.size;
    // Short files can stand for long ones. Each is bounded before it is built, and their sum here.
    if (replaced_bytes > bounds.program_bytes) throw too_large();
    replaced.push({ path, entry: file });
  }
  const files: SetProgram['files'] = [];
  for (const { path, entry } of replaced) files.push({ path, file: await contents.add(entry) });
  return { language: language.name, source, files };
}

/** Its bytes as characters: a source may have another encoding than UTF-8. */
export async function readSource(entry: Entry, bounds: PackageBounds): Promise<string> {
  return (await readWhole(entry, bounds.program_bytes)).toString('latin1');
}

/** Whether the ending of a file says that it is a source. */
export function isSource(entry: Entry): boolean {
  return languageByEnding(entry.path) !== undefined;
}

const BY_ENDING = languagesBy(({ endings }) => endings);
const BY_CODE = languagesBy(({ name, package_codes = [] }) => [name, ...package_codes]);

function languagesBy(words: (language: Language) => readonly string[]): Map<string, Language> {
  return new Map(
    LANGUAGES.flatMap((each) => words(each).map((word): [string, Language] => [word, each])),
  );
}

function languageByEnding(path: string): Language | undefined {
  const ending = /\.([^./]+)$/.exec(path)?.[1];
  return ending === undefined ? undefined : BY_ENDING.get(ending);
}

function languageOf(program: string, paths: string[], { language }: ProgramHints): Language {
  const unknown = (problem: string) => new UnknownLanguage(program, problem);
  if (language) {
    const coded = BY_CODE.get(language);
    if (coded === undefined) throw unknown(`the language ${language} is not supported`);
    return coded;
  }
  const found = new Set(paths.map(languageByEnding).filter((each) => each !== undefined));
  const [only, other] = found;
  if (only === undefined)
    throw unknown('none of its files ends like a source of a supported language');
  if (other !== undefined) {
    const both = `${only.name} and ${other.name}`;
    throw new PackageProblem(program, `its files are of two languages, ${both}`);
  }
  return only;
}

function mainOf(
  paths: string[],
  language: Language,
  { main, language: hinted, for_request }: ProgramHints & { for_request: boolean },
  wrong: (problem: string) => Error,
): string {
  const sorted = paths.toSorted();
  const by_ending = sorted.filter((path) => languageByEnding(path) === language);
  const possible = hinted ? sorted : by_ending;
  const usual = language.source;
  const names = main
    ? [main, `${main}${usual.slice(usual.lastIndexOf('.'))}`]
    : [usual, '__main__.py'];
  const named = names.find((name) => possible.includes(name));
  if (named !== undefined) return named;
  if (main) throw wrong(`it has no file ${main}`);
  const sources = by_ending.length > 0 ? by_ending : possible;
  const own = sources.filter((path) => !path.includes('/'));
  const [first, second] = own.length > 0 ? own : sources;
  if (first === undefined) throw wrong('it has no files');
  if (sources.length === 1 || language.has_no_main_source) return first;
  const deep = sources.find((path) => names.includes(path.slice(path.lastIndexOf('/') + 1)));
  // A validator keeps its folders. What is sent as `code` may be a helper of that source.
  if (deep !== undefined && (for_request || second !== undefined)) throw wrong(tooDeep(deep));
  if (second === undefined) return first;
  throw wrong(`it has several source files, and none is called ${usual}`);
}

const tooDeep = (path: string) =>
  `its main source ${path} is in a folder below it; move it into the program's own folder`;

const baseName = ({ path }: Entry) => path.slice(path.lastIndexOf('/') + 1);
