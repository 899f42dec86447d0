/** Makes sure that the service has the test set of a package. */
import { openAsBlob } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '../client/client.ts';
import { manifestOf } from '../judging/manifest.ts';
import { DEFAULT_PACKAGE_BOUNDS, type PackageBounds } from '../judging/packages/package_bounds.ts';
import { ARCHIVE, PackageProblem } from '../judging/packages/package_problem.ts';
import type { TestSet } from '../judging/test_set.ts';
import { CommandFailed, type Context } from './command.ts';
import { callText } from './follow_submission.ts';
import { archivePackage } from './package_archive.ts';

/** Like those of the service, if both have the same configuration. */
export const packageBounds = ({ config }: Context): PackageBounds => ({
  ...DEFAULT_PACKAGE_BOUNDS,
  unpacked_bytes: config.test_set_bytes,
});

/** A mistake in a package is one line. */
export async function readingPackage<T>(path: string, reading: Promise<T>): Promise<T> {
  return reading.catch((error: unknown) => {
    if (error instanceof PackageProblem) {
      const { item, problem, message } = error;
      // Its path says that the package is meant.
      throw new CommandFailed(`${path}: ${item === ARCHIVE ? problem : message}`);
    }
    const { code } = error as { code?: string };
    if (code === undefined) throw error;
    throw new CommandFailed(`${path}: cannot be read (${code})`);
  });
}

/** The id of the set. The package is uploaded only if the account has no set of its manifest. */
export async function storedSet(
  client: Client,
  path: string,
  set: TestSet,
  bounds: PackageBounds,
): Promise<string> {
  const { sha256 } = manifestOf(set);
  const known = (await client.testSets()).find((one) => one.sha256 === sha256);
  if (known !== undefined) return known.id;
  const uploaded = (await stat(path)).isDirectory()
    ? await withArchive(path, bounds, (archive) => upload(client, archive))
    : await upload(client, path);
  return uploaded.id;
}

const upload = async (client: Client, archive: string) =>
  client.uploadTestSet(await openAsBlob(archive));

async function withArchive<T>(
  folder: string,
  bounds: PackageBounds,
  use: (archive: string) => Promise<T>,
): Promise<T> {
  const place = await mkdtemp(join(tmpdir(), 'runledger-package-'));
  try {
    const archive = join(place, 'package.zip');
    await archivePackage(folder, bounds, archive);
    return await use(archive);
  } finally {
    await rm(place, { recursive: true });
  }
}

/** An error of a call, as one line. */
export function failedCall(error: unknown): CommandFailed {
  if (error instanceof CommandFailed) return error;
  return new CommandFailed(callText(error));
}
