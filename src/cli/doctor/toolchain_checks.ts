/** Which interpreter, compiler and JDK programs are run with here, and what was passed over. */
import { findToolchains, type Toolchains } from '../../executor/toolchains.ts';
import { type Check, type Finding, ok, warn } from './finding.ts';

const NAMES = ['python', 'cpp', 'java'] as const;

const PACKAGES = {
  python: 'apt-get install python3',
  cpp: 'apt-get install g++',
  java: 'apt-get install default-jdk-headless (17 or newer)',
};

export const toolchains: Check = {
  name: 'toolchains',
  look: async ({ config }) => {
    const found = await findToolchains({ mold: config.mold });
    const findings = NAMES.flatMap((name) => findingOf(found, name, config.languages));
    return [...findings, ...linker(found)];
  },
};

function findingOf(
  found: Toolchains,
  name: (typeof NAMES)[number],
  wanted: readonly string[],
): Finding[] {
  const skipped = found.passed_over
    .filter(({ language }) => language === name)
    .map(({ candidate, why }) => `; not ${candidate}: ${why}`)
    .join('');
  const tools = found[name];
  if (tools !== null) {
    const at = tools.language === 'java' ? tools.home : tools.executable;
    return [ok(name, `${tools.version} at ${at}${skipped}`)];
  }
  if (!wanted.includes(name)) return [];
  const remedy = `${PACKAGES[name]}, or leave it out of RUNLEDGER_LANGUAGES`;
  return [warn(name, `none on this machine${skipped}`, remedy)];
}

function linker({ cpp }: Toolchains): Finding[] {
  if (cpp === null) return [];
  if (cpp.linker === 'mold') return [ok('linker', cpp.linker_version)];
  const found = `${cpp.linker_version}; mold links in half the time`;
  return [ok('linker', `${found} (apt-get install mold)`)];
}
