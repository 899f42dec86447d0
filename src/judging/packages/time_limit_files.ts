/**
 * The files beside problem.yaml that tools keep a time limit in. The format has no such files for its legacy version, and no
 * key either, so most contests have their limits in one of these: `.timelimit` is the number alone, `domjudge-problem.ini`
 * has it among other settings of DOMjudge.
 */
import { TIME_LIMIT_FILE } from './entry_names.ts';
import type { Folder } from './file_tree.ts';
import type { PackageBounds } from './package_bounds.ts';
import { PackageProblem } from './package_problem.ts';
import { readText, toNumber } from './settings.ts';

export const INI_FILE = 'domjudge-problem.ini';

export type BesideYaml = {
  name: string | null;
  cpu_time_ms: number | null;
};

type Reader = { bounds: PackageBounds; note(path: string, note: string): void };

/** `in_yaml_ms`: the limit in problem.yaml, which goes before the others. */
export async function readBesideYaml(
  root: Folder,
  has_validator: boolean,
  in_yaml_ms: number | null,
  { bounds, note }: Reader,
): Promise<BesideYaml> {
  const ini = await readIni(root, bounds);
  for (const key of ['special_run', 'special_compare']) {
    const program = ini.get(key);
    if (program && !has_validator) {
      throw new PackageProblem(
        ini.path,
        `${key}: ${program} is not in the package; put it into output_validators and write "validation: custom"`,
      );
    }
  }
  const in_ini_ms = limitOf(ini.path, 'timelimit: ', ini.get('timelimit'));
  if (in_ini_ms !== null && in_yaml_ms !== null && in_ini_ms !== in_yaml_ms) {
    const seconds = in_ini_ms / 1000;
    note(ini.path, `its time limit of ${seconds} s is not used: problem.yaml has another one`);
  }
  const known_ms = in_yaml_ms ?? in_ini_ms;
  const file = root.files.get(TIME_LIMIT_FILE);
  if (file === undefined) return { name: ini.get('name') || null, cpu_time_ms: known_ms };
  const text = (await readText(file, bounds.yaml_bytes)).trim();
  const own_ms = limitOf(file.path, '', text);
  if (own_ms !== null && known_ms !== null && own_ms !== known_ms) {
    const other = in_yaml_ms === null ? INI_FILE : 'problem.yaml';
    throw new PackageProblem(
      file.path,
      `its time limit of ${own_ms / 1000} s is not that of ${other}, ${known_ms / 1000} s`,
    );
  }
  return { name: ini.get('name') || null, cpu_time_ms: known_ms ?? own_ms };
}

const SECONDS = { min: 0.001, max: 3_600 };

function limitOf(path: string, key: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const seconds = toNumber(text);
  if (seconds === null || seconds < SECONDS.min || seconds > SECONDS.max) {
    throw new PackageProblem(
      path,
      `${key}must be a number of seconds from ${SECONDS.min} to ${SECONDS.max}`,
    );
  }
  return Math.ceil(seconds * 1000);
}

class Ini extends Map<string, string> {
  path = INI_FILE;
}

/** Lines of `key = value`; quotes around a value are no part of it. What is a comment has a key that nothing asks for. */
async function readIni(root: Folder, bounds: PackageBounds): Promise<Ini> {
  const ini = new Ini();
  const file = root.files.get(INI_FILE);
  if (file === undefined) return ini;
  ini.path = file.path;
  for (const line of (await readText(file, bounds.yaml_bytes)).split('\n')) {
    // Without one regular expression for the line: it would try every way to share the white space between its parts.
    const at = line.indexOf('=');
    const value = line.slice(at + 1).trim();
    if (at === -1 || /[\r\u2028\u2029]/.test(value)) continue;
    const [, , quoted] = /^(["'])(.*)\1$/.exec(value) ?? [];
    ini.set(line.slice(0, at).trim(), quoted ?? value);
  }
  return ini;
}
