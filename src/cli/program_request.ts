/** The part of a submission's request that is the program: from a source file, or from a folder of files. */
import { stat } from 'node:fs/promises';
import type { FileInput, SubmissionRequest } from '../client/client.ts';
import { treeOf } from '../judging/packages/file_tree.ts';
import { openFolder } from '../judging/packages/folder_source.ts';
import type { PackageBounds } from '../judging/packages/package_bounds.ts';
import { Contents } from '../judging/packages/package_contents.ts';
import { filesOfFolder, type Program, readProgram } from '../judging/packages/programs.ts';
import { BY_NAME, CANONICAL_NAMES, LANGUAGES } from '../languages/common/registry.ts';
import { CommandFailed, type Context, type Option, UsageError } from './command.ts';
import { readBytes } from './read_text.ts';

export type ProgramRequest = Pick<SubmissionRequest, 'language' | 'code' | 'files'>;

const NAMES = [...CANONICAL_NAMES.keys()];

export const LANGUAGE_OPTION: Option = {
  value: 'L',
  help: 'the language, if the file name does not imply it',
};

/** Undefined if the option is not given. */
export function languageOf({ options: { language } }: Context): string | undefined {
  if (typeof language !== 'string') return undefined;
  if (CANONICAL_NAMES.has(language)) return language;
  throw new UsageError(`--language must be one of ${NAMES.join(', ')}, not "${language}"`);
}

/** `language`: of the option; undefined if the file's name says it. */
export async function requestOfFile(
  file: string,
  language: string | undefined,
): Promise<ProgramRequest> {
  const ending = endingOf(file);
  const ofEnding = LANGUAGES.find(({ endings }) => endings.includes(ending));
  const named = language ?? ofEnding?.name;
  if (named === undefined)
    throw new UsageError(`${file}: name the language with --language ${NAMES.join('|')}`);
  const text = decodeText(file, await readInput(file));
  // Only where the ending named the language does it say anything about the text.
  const fromFile = CANONICAL_NAMES.get(named) === ofEnding?.name ? ofEnding?.fromFile : undefined;
  return { language: named, code: fromFile?.(text, ending) ?? text };
}

/** A folder is one program; its files keep their paths. */
export async function requestOfPath(
  path: string,
  language: string | undefined,
  bounds: PackageBounds,
): Promise<ProgramRequest> {
  const is_folder = path !== '-' && (await stat(path).catch(cannotRead(path))).isDirectory();
  if (!is_folder) return requestOfFile(path, language);
  const source = await openFolder(path, bounds);
  const contents = new Contents();
  const { root } = treeOf(source.files);
  const canonical = language && CANONICAL_NAMES.get(language);
  const program = await readProgram(filesOfFolder(root), contents, bounds, {
    language: canonical ?? null,
    for_request: true,
  });
  const bytes = new Map<string, Uint8Array>();
  for (const { sha256 } of contents.files()) {
    bytes.set(sha256, Buffer.concat(await Array.fromAsync(contents.open(sha256))));
  }
  return requestOfProgram(program, bytes);
}

/** `bytes`: of each content, by hash. */
export function requestOfProgram(
  { language, source, files }: Program,
  bytes: ReadonlyMap<string, Uint8Array>,
): ProgramRequest {
  const contentOf = (sha256: string) => Buffer.from(bytes.get(sha256) ?? '');
  const main = files.find(({ path }) => path === source);
  const text = sourceText(contentOf(main?.file.sha256 ?? ''));
  const others = files.flatMap(({ path, file }): FileInput[] =>
    path === source ? [] : [{ path, content_base64: contentOf(file.sha256).toString('base64') }],
  );
  const code = BY_NAME.get(language)?.fromFile?.(text, endingOf(source)) ?? text;
  return { language, code, ...(others.length > 0 && { files: others }) };
}

export async function readInput(path: string): Promise<Buffer> {
  return readBytes(path).catch(cannotRead(path));
}

const endingOf = (path: string) => /\.([^./]+)$/.exec(path)?.[1] ?? '';

/** Old sources often have one byte for each character; code is sent as text. */
function sourceText(bytes: Buffer): string {
  try {
    return utf8(bytes);
  } catch {
    return bytes.toString('latin1');
  }
}

function decodeText(file: string, bytes: Buffer): string {
  try {
    return utf8(bytes);
  } catch {
    throw new CommandFailed(`${file}: is not UTF-8`);
  }
}

const utf8 = (bytes: Buffer) =>
  new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);

function cannotRead(path: string) {
  return (error: unknown): never => {
    if (error instanceof UsageError) throw error;
    throw new CommandFailed(`${path}: cannot be read (${(error as { code?: string }).code})`);
  };
}
