/**
 * Reads a problem package, or a flat archive of inputs and answers, from a zip archive or a folder on disk.
 *
 * The order is: check every name and size, read the settings, check and hash each file that the set needs, and only then
 * hand out the bytes. A file that the set does not need is never unpacked. Memory holds the list of names, one YAML file
 * or one program's source at a time, and otherwise a chunk of a file. Whatever is wrong ends in one PackageProblem.
 */
import { stat } from 'node:fs/promises';
import type { FileRef, TestSet } from '../test_set.ts';
import type { EntrySource } from './entry_source.ts';
import { type ExampleSubmission, readSubmissions } from './example_submissions.ts';
import { checkTwins, treeOf } from './file_tree.ts';
import { readFlatSet } from './flat_archive.ts';
import { openFolder } from './folder_source.ts';
import type { PackageBounds } from './package_bounds.ts';
import { Contents, type OnFile } from './package_contents.ts';
import { PackageProblem } from './package_problem.ts';
import { type PackageReader, type PackageSet, readPackageSet } from './package_set.ts';
import type { Timing } from './problem_settings.ts';
import { withRoomForAnswers } from './service_bounds.ts';
import { YamlReader } from './settings.ts';
import { openZip } from './zip_source.ts';

export type ReadPackage = {
  set: TestSet;
  /** Files of the package that are not used, though they look as if they should be: one line each. */
  notes: string[];
};

/** For the check of a package by its own example submissions. */
export type CheckedPackage = ReadPackage & {
  submissions: ExampleSubmission[];
  /** the files of the submissions, by hash */
  sources: ReadonlyMap<string, Uint8Array>;
  /** null for a flat archive */
  timing: Timing | null;
  best_score: number | null;
  /** A scored package of the legacy format: its groups say which tests are run. */
  groups_stop: boolean;
};

export async function readPackage(
  path: string,
  bounds: PackageBounds,
  onFile: OnFile,
): Promise<ReadPackage> {
  return await reading(path, bounds, async (reader, notes) => {
    const { set } = await readSet(reader);
    await reader.contents.deliver(onFile);
    return { set, notes };
  });
}

/** A package that stays open for as long as its user works with it. */
export type OpenPackage = ReadPackage & {
  /** the path of the validator's main source in the package */
  validator_path: string | null;
  /** each content of the set once */
  files: FileRef[];
  /** Checks the bytes while they are read. Can be called again. */
  contentOf(sha256: string): AsyncIterable<Uint8Array>;
};

/** For a user that takes the contents in an order of its own, or not at all. `signal` ends the reading. */
export async function usePackage<T>(
  path: string,
  bounds: PackageBounds,
  signal: AbortSignal,
  use: (opened: OpenPackage) => Promise<T>,
): Promise<T> {
  const work = async (reader: PackageReader, notes: string[]) => {
    const { set, validator_path } = await readSet(reader);
    const { contents } = reader;
    const contentOf = (sha256: string) => contents.open(sha256);
    return await use({ set, notes, validator_path, files: contents.files(), contentOf });
  };
  return await reading(path, bounds, work, signal);
}

export async function readPackageWithSubmissions(
  path: string,
  bounds: PackageBounds,
  onFile: OnFile,
): Promise<CheckedPackage> {
  return await reading(path, bounds, async (reader, notes) => {
    const read = await readSet(reader);
    const { set, problem } = read;
    const own = new Contents();
    const submissions =
      problem === null ? [] : await readSubmissions({ ...reader, contents: own }, set, problem);
    await reader.contents.deliver(onFile);
    const sources = new Map<string, Uint8Array>();
    await own.deliver(async ({ sha256 }, bytes) => {
      sources.set(sha256, Buffer.concat(await Array.fromAsync(bytes)));
    });
    return {
      set,
      notes,
      submissions,
      sources,
      timing: problem?.timing ?? null,
      best_score: read.best_score,
      groups_stop: read.groups_stop,
    };
  });
}

type SetOfPackage = Omit<PackageSet, 'problem'> & { problem: PackageSet['problem'] | null };

async function readSet(reader: PackageReader): Promise<SetOfPackage> {
  const { root, top_name } = reader.tree;
  if (root.files.has('problem.yaml')) return await readPackageSet(reader);
  const data = root.folders.get('data');
  if (data?.folders.has('secret') || data?.folders.has('sample') || root.folders.has('secret')) {
    throw new PackageProblem('problem.yaml', 'it is missing');
  }
  const name = top_name ?? reader.fallback_name;
  const set = await readFlatSet(root, name, reader.contents, reader.note);
  return {
    set: withRoomForAnswers(set, reader.note),
    problem: null,
    best_score: null,
    groups_stop: false,
    validator_path: null,
  };
}

const MOST_NOTES = 100;
const UNNAMED = 'tests';

async function reading<T>(
  path: string,
  bounds: PackageBounds,
  read: (reader: PackageReader, notes: string[]) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const source = await openSource(path, bounds);
  const notes: string[] = [];
  const note = (item: string, text: string) => {
    if (notes.length < MOST_NOTES) notes.push(new PackageProblem(item, text).message);
  };
  try {
    const fallback_name = source.name ?? UNNAMED;
    const contents = new Contents(signal);
    const yaml = new YamlReader(bounds);
    const tree = treeOf(source.files);
    checkTwins(tree.root);
    return await read({ tree, fallback_name, contents, yaml, bounds, note }, notes);
  } finally {
    await source.close();
  }
}

async function openSource(path: string, bounds: PackageBounds): Promise<EntrySource> {
  return (await stat(path)).isDirectory()
    ? await openFolder(path, bounds)
    : await openZip(path, bounds);
}
