/** Packages that the tests make, as an archive or a folder, and what reading them hands out. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import type { PackageBounds } from '../../src/judging/packages/package_bounds.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import type { PackageProblem } from '../../src/judging/packages/package_problem.ts';
import {
  type CheckedPackage,
  type ReadPackage,
  readPackage,
  readPackageWithSubmissions,
} from '../../src/judging/packages/read_package.ts';
import { zipOf } from './zip_writer.ts';

export type Files = Readonly<Record<string, string | Uint8Array>>;

export const A_TEST: Files = { 'data/secret/1.in': 'in\n', 'data/secret/1.ans': 'out\n' };
export const LEGACY: Files = { 'problem.yaml': 'name: Sums\n', ...A_TEST };
export const NEW: Files = {
  'problem.yaml': 'problem_format_version: 2025-09\nname: Sums\nuuid: 0\n',
  ...A_TEST,
};

export function archiveOf(files: Files): Buffer {
  return zipOf(Object.entries(files).map(([name, data]) => ({ name, data })));
}

export async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'packages-'));
  t.teardown(() => rm(folder, { recursive: true }));
  return folder;
}

export async function onDisk(t: Test, archive: Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(t), 'archive.zip');
  await writeFile(path, archive);
  return path;
}

export async function asFolder(t: Test, files: Files): Promise<string> {
  const folder = await temporaryFolder(t);
  for (const [name, data] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), data);
  }
  return folder;
}

/** Keeps what it gets, and fails when a hash is wrong or a content comes twice. */
export class Keeper {
  readonly kept = new Map<string, Buffer>();
  largest_chunk = 0;

  onFile = async (
    file: { sha256: string; size: number },
    bytes: AsyncIterable<Uint8Array>,
  ): Promise<void> => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of bytes) {
      chunks.push(chunk);
      this.largest_chunk = Math.max(this.largest_chunk, chunk.length);
    }
    const content = Buffer.concat(chunks);
    const sha256 = createHash('sha256').update(content).digest('hex');
    if (sha256 !== file.sha256 || content.length !== file.size)
      throw new Error(`${sha256} is not ${file.sha256}`);
    if (this.kept.has(sha256)) throw new Error(`${sha256} came twice`);
    this.kept.set(sha256, content);
  };

  text(file: { sha256: string } | undefined): string {
    return String(this.kept.get(file?.sha256 ?? ''));
  }
}

export async function read(t: Test, files: Files): Promise<ReadPackage & { keeper: Keeper }> {
  const keeper = new Keeper();
  return {
    ...(await readPackage(
      await onDisk(t, archiveOf(files)),
      DEFAULT_PACKAGE_BOUNDS,
      keeper.onFile,
    )),
    keeper,
  };
}

export async function readWithSubmissions(
  t: Test,
  files: Files,
): Promise<CheckedPackage & { keeper: Keeper }> {
  const keeper = new Keeper();
  return {
    ...(await readPackageWithSubmissions(
      await onDisk(t, archiveOf(files)),
      DEFAULT_PACKAGE_BOUNDS,
      keeper.onFile,
    )),
    keeper,
  };
}

/** The archive is rejected with a message of one line, and nothing of it is handed out. */
export async function rejects(
  t: Test,
  title: string,
  archive: Uint8Array,
  expected: RegExp,
  bounds: Partial<PackageBounds> = {},
): Promise<void> {
  const keeper = new Keeper();
  const error = await readPackage(
    await onDisk(t, archive),
    { ...DEFAULT_PACKAGE_BOUNDS, ...bounds },
    keeper.onFile,
  ).then(
    () => null,
    (error: unknown) => error as PackageProblem,
  );
  t.equal(error?.name, 'PackageProblem', `${title}: ${error?.stack ?? 'it was accepted'}`);
  t.match(error?.message, expected, title);
  t.notMatch(error?.message, /[\n\r\0]/, `${title}: in one line`);
  t.equal(keeper.kept.size, 0, `${title}: nothing is handed out`);
}

export type WrongPackage = [title: string, files: Files, expected: RegExp];

export async function rejectAll(t: Test, packages: readonly WrongPackage[]): Promise<void> {
  for (const [title, files, expected] of packages) {
    await rejects(t, title, archiveOf(files), expected);
  }
}

export const emptyTests = (...names: string[]): Files =>
  Object.fromEntries(
    names.flatMap((name) => [
      [`${name}.in`, ''],
      [`${name}.ans`, ''],
    ]),
  );

/** LEGACY and NEW with another problem.yaml; NEW's keeps its first keys. */
export const legacy = (yaml: string, files: Files = {}): Files => ({
  ...LEGACY,
  'problem.yaml': yaml,
  ...files,
});
export const newer = (yaml: string, files: Files = {}): Files => ({
  ...NEW,
  'problem.yaml': `${NEW['problem.yaml']}${yaml}`,
  ...files,
});

/** A comparison by tokens, as the format's default validator does it. */
export const tokens = (more: object = {}) => ({
  by: 'tokens',
  case_sensitive: false,
  absolute: null,
  relative: null,
  ...more,
});
