/**
 * What a test file needs from the machine, and what this machine lacks. A file needs isolation if it, or a file that it
 * imports, opens a sandbox. It names its other needs in a comment: `// needs: java`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSandbox } from '../../src/executor/sandbox.ts';
import { BY_NAME } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { findBasebackup } from './basebackup.ts';
import { findBrowser } from './browser.ts';
import { importsOf } from './imports.ts';

/** 'isolation', 'browser', 'basebackup', or a language. */
export type Need = string;

const NAMED = /^\s*(?:\/\/|\*) needs: ([a-z, ]+)$/m;
const LAUNCHER = join(import.meta.dirname, '../../build/launcher');

export function needsOf(test: string): Need[] {
  const named = NAMED.exec(readFileSync(test, 'utf8'))?.[1]?.split(/,\s*/) ?? [];
  const needs = new Set(named as Need[]);
  if (opensSandbox(test, new Set())) needs.add('isolation');
  return [...needs];
}

function opensSandbox(file: string, seen: Set<string>): boolean {
  if (seen.has(file) || !file.startsWith('test/') || !existsSync(file)) return false;
  seen.add(file);
  if (/\bopenSandbox\(/.test(readFileSync(file, 'utf8'))) return true;
  return importsOf(file).some(({ to, typeOnly }) => !typeOnly && opensSandbox(to, seen));
}

/** For each need that this machine cannot meet, the reason. */
export async function lacking(needs: ReadonlySet<Need>): Promise<Map<Need, string>> {
  const lacks = new Map<Need, string>();
  const isolation = needs.has('isolation') ? await noIsolation() : null;
  if (isolation) lacks.set('isolation', isolation);
  if (findBrowser() === null)
    lacks.set('browser', 'no browser on this machine (apt-get install chromium)');
  if (findBasebackup() === null)
    lacks.set('basebackup', 'no pg_basebackup on this machine (apt-get install postgresql)');
  const { toolchains } = await findToolchains();
  for (const language of BY_NAME.keys()) {
    if (!toolchains.has(language)) lacks.set(language, `no ${language} on this machine`);
  }
  return lacks;
}

async function noIsolation(): Promise<string | null> {
  if (!existsSync(LAUNCHER)) return 'no launcher: it could not be built on this machine';
  const store_dir = await mkdtemp(join(tmpdir(), 'runledger-needs-'));
  try {
    const sandbox = await openSandbox({ launcher: LAUNCHER, slots: 1, profiles: {}, store_dir });
    await sandbox.close();
    return null;
  } catch (error) {
    return (error as Error).message.split('\n')[0]!;
  } finally {
    await rm(store_dir, { recursive: true, force: true });
  }
}
