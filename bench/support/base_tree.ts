/** Another revision of this repository beside this working tree, for benches that compare the two. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const TREE = resolve(import.meta.dirname, '../..');

// Make's own variables would reach the makes that run below.
const { MAKEFLAGS: _, MAKELEVEL: __, MFLAGS: ___, ...rest } = process.env;
export const ENVIRONMENT = rest;

/**
 * Checks the revision out below build/ and removes it at the end. It has this tree's node_modules and a launcher of its own.
 * Exit status 2: there is no comparison.
 */
export async function withBase(
  command: string,
  revision: string,
  compare: (root: string, commit: string) => Promise<void>,
): Promise<void> {
  try {
    const commit = git('rev-parse', '--verify', '--quiet', `${revision}^{commit}`);
    const root = join(TREE, 'build/compare', commit.slice(0, 12));
    try {
      checkOut(revision, commit, root);
      await compare(root, commit);
    } finally {
      remove(root);
    }
  } catch (error) {
    console.error(`${command}: ${(error as Error).message}`);
    process.exitCode = 2;
  }
}

function checkOut(revision: string, commit: string, root: string): void {
  // An interrupted comparison leaves its worktree behind.
  remove(root);
  git('worktree', 'add', '--quiet', '--detach', root, commit);
  symlinkSync(join(TREE, 'node_modules'), join(root, 'node_modules'));
  if (lockOf(root) !== lockOf(TREE)) {
    console.error('package-lock.json differs: the base runs with the packages of this tree');
  }
  console.error(`building the launcher of ${revision} in ${root} ...`);
  execFileSync('make', ['--no-print-directory', '-s', '-C', join(root, 'src/sandbox')], {
    env: ENVIRONMENT,
    stdio: ['ignore', 2, 2],
  });
}

function remove(root: string): void {
  rmSync(root, { recursive: true, force: true });
  git('worktree', 'prune');
}

function lockOf(root: string): string {
  return readFileSync(join(root, 'package-lock.json'), 'utf8');
}

function git(...words: string[]): string {
  return execFileSync('git', words, {
    cwd: TREE,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim();
}

/** A variable of the command line. */
export function numberOf(command: string, name: string, otherwise: number): number {
  const number = Number(process.env[name] || otherwise);
  if (!(number > 0)) {
    console.error(`${command}: ${name} must be a number above 0`);
    process.exit(2);
  }
  return number;
}
