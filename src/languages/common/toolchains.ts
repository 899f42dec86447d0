/**
 * Which toolchain this machine has for each language. The first program of a name on PATH may be a
 * version manager's shim: a script that is slow, lies outside the system's folders and is absent
 * from the box. So a candidate must be a real executable and must answer a probe, and the system's
 * own folders come before those of PATH.
 */
import { lstat, open, realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { IsOn, Language, Probed, Search, Toolchain } from './language.ts';
import { isUnder, real } from './mounts.ts';
import { firstLine } from './probing.ts';
import { LANGUAGES } from './registry.ts';

/** A language that this machine can run. */
export type Installed = Toolchain & { readonly language: Language };
/** By the canonical name, in the order of the registry. */
export type Toolchains = ReadonlyMap<string, Installed>;

export type PassedOver = { language: string; candidate: string; why: string };
export type FoundToolchains = {
  toolchains: Toolchains;
  /** Every candidate that could not be used, and why: for doctor. */
  passed_over: readonly PassedOver[];
};

export type ToolchainOptions = {
  /** Those to look for; all of them where not given. */
  languages?: readonly Language[];
  /** The folders of PATH. */
  path?: string;
  /** By language: an executable that is probed before all others. */
  chosen?: Readonly<Record<string, string>>;
  /** By name; a switch that is not named is on. */
  switches?: Readonly<Record<string, boolean>>;
  /** No box may see these, nor the home folder. */
  private_folders?: readonly string[];
};

export async function findToolchains(options: ToolchainOptions = {}): Promise<FoundToolchains> {
  const { languages = LANGUAGES, chosen = {}, switches = {}, private_folders = [] } = options;
  const hidden = await Promise.all([...homeFolder(), ...private_folders].map(real));
  const folders = ['/usr/bin', '/usr/local/bin', ...pathFolders(options.path)];
  const search: Search = { named: (program) => folders.map((folder) => join(folder, program)) };
  const isOn = switchReader(switches);
  const passed_over: PassedOver[] = [];
  const found = await Promise.all(
    languages.map(async (language) => {
      const first = chosen[language.name];
      const others = await language.candidates(search);
      const candidates = first === undefined ? others : [first, ...others];
      return firstThatWorks(language, candidates, { isOn, hidden, passed_over });
    }),
  );
  const installed = found.filter((one) => one !== null);
  return { toolchains: new Map(installed.map((one) => [one.language.name, one])), passed_over };
}

export function switchReader(switches: Readonly<Record<string, boolean>>): IsOn {
  return (name) => switches[name] ?? true;
}

function pathFolders(path = process.env['PATH'] ?? ''): string[] {
  return path.split(':').filter((folder) => folder.startsWith('/'));
}

type Looking = { isOn: IsOn; hidden: readonly string[]; passed_over: PassedOver[] };

async function firstThatWorks(
  language: Language,
  candidates: readonly string[],
  { isOn, hidden, passed_over }: Looking,
): Promise<Installed | null> {
  const asked = new Set<string>();
  for (const candidate of candidates) {
    const file = await realpath(candidate).catch(() => null);
    if (file === null || asked.has(file)) continue;
    asked.add(file);
    const answer = await answerOf(language, await plainName(candidate, file), isOn);
    const why = 'found' in answer ? await shownBy(answer.found, hidden) : answer.why;
    if ('found' in answer && why === null) return { ...answer.found, language };
    passed_over.push({ language: language.name, candidate, why: why! });
  }
  return null;
}

async function answerOf(language: Language, file: string, isOn: IsOn): Promise<Probed> {
  try {
    if (!(await isProgram(file))) return { why: 'a script (a version manager?), not a program' };
    return await language.probe(file, isOn);
  } catch (error) {
    return { why: firstLine((error as Error).message) };
  }
}

function homeFolder(): string[] {
  try {
    return [homedir()];
  } catch {
    // HOME is not set, and the user has no name: so in some containers.
    return [];
  }
}

/** A toolchain in a folder such as ~/bin is mounted with everything beside that folder. */
async function shownBy(found: Toolchain, hidden: readonly string[]): Promise<string | null> {
  for (const { from } of [...found.mounts, ...(found.compiler?.mounts ?? [])]) {
    // Of /bin and /lib, a box has the link alone.
    if ((await lstat(from).catch(() => null))?.isSymbolicLink()) continue;
    const folder = await real(from);
    const shown = hidden.find((path) => folder === '/' || isUnder(folder, path));
    if (shown === undefined) continue;
    return `programs would see all of ${folder}, and with it ${shown}: install it in a folder of its own`;
  }
  return null;
}

/**
 * The name that users know (python3, g++), where it is a neighbour of the file that it links to: then
 * tools print the same names as outside. /etc/alternatives is not in a box.
 */
async function plainName(candidate: string, file: string): Promise<string> {
  const neighbour = join(dirname(file), basename(candidate));
  return (await realpath(neighbour).catch(() => null)) === file ? neighbour : file;
}

async function isProgram(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString('latin1') === '\x7fELF';
  } finally {
    await handle.close();
  }
}
