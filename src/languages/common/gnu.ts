/** What the languages of the GNU compilers share: the probe, the linker, and how a program is run. */
import { dirname } from 'node:path';
import { BASE_ENVIRONMENT, type Command } from './box.ts';
import type {
  DebianPackage,
  LimitMet,
  OpenCompiler,
  Probed,
  Switch,
  Toolchain,
  Workshop,
} from './language.ts';
import { ask, firstLine, mountsFor } from './probing.ts';

const MOLD = 'mold';

/** One switch for all of them. */
export const MOLD_SWITCH: Switch = {
  name: MOLD,
  variable: 'RUNLEDGER_MOLD',
  reason: 'link with mold where it is installed',
};
export const MOLD_PACKAGE: DebianPackage = { name: MOLD, command: MOLD, optional: true };

export type GnuLanguage = {
  /** What the first line of `--version` must match. */
  is: RegExp;
  /** The command's usual name, for messages. */
  command: string;
  source: string;
  flags: readonly string[];
  /** Behind the source, where the linker looks for what the source needs. */
  libraries: readonly string[];
};

export type GnuTools = {
  executable: string;
  flags: readonly string[];
  /** The arguments that compile the source to ARTEFACT, with further flags before the source. */
  compile(...more: string[]): Command;
};

const ARTEFACT = 'main';

export async function probeGnu(
  language: GnuLanguage,
  executable: string,
  isOn: (name: string) => boolean,
  open: (tools: GnuTools, workshop: Workshop) => OpenCompiler,
): Promise<Probed> {
  const version = firstLine(await ask(executable, ['--version']));
  if (!language.is.test(version)) return { why: `${version} is not ${language.command}` };
  const linker = await fastestLinker(executable, isOn(MOLD));
  const { source, flags, libraries } = language;
  const linked = linker.name === '' ? flags : [...flags, `-fuse-ld=${linker.name}`];
  const tools: GnuTools = {
    executable,
    flags,
    compile: (...more) => ({
      argv: [executable, ...linked, ...more, source, '-o', ARTEFACT, ...libraries],
      env: BASE_ENVIRONMENT,
    }),
  };
  const found: Toolchain = {
    version,
    at: executable,
    mounts: await mountsFor([dirname(dirname(executable))]),
    notes: [{ check: 'linker', found: advised(linker) }],
    run: ({ artefact, args }) => ({ argv: [artefact, ...args], env: BASE_ENVIRONMENT }),
    compiler: {
      artefact: ARTEFACT,
      recipe: [version, linker.version, ...linked, ...libraries].join('\n'),
      limitMet: (_exit_code, said) => limitMet(said),
      open: (workshop) => open(tools, workshop),
    },
  };
  return { found };
}

/**
 * Driver, assembler and linker are processes of their own. They report a full disk, a file that grows too large and a
 * death by the kernel as errors of their own, even as an "internal compiler error". Such a line begins with the name of
 * the tool or of its temporary file, a colon and a blank. Diagnostics have a line number behind the colon, and quoted
 * lines of the source begin with blanks. A source that forges such a line by `#line` gets a wrong explanation of its own
 * error, and nothing else.
 */
const TOOL_SAYS = /^[^\s:|]+: (.*)$/gm;
const FILES = /File size limit exceeded|File too large|No space left on device|Disk full\?/;
const MEMORY = /Killed signal|out of memory|memory exhausted|Cannot allocate memory/;

function limitMet(said: string): LimitMet | null {
  for (const { 1: words = '', index } of said.matchAll(TOOL_SAYS)) {
    if (FILES.test(words)) return { limit: 'files', said_until: index };
    if (MEMORY.test(words)) return { limit: 'memory', said_until: index };
  }
  return null;
}

type Linker = { name: '' | 'mold' | 'lld' | 'gold'; version: string };

/** The fastest that this compiler can drive; "" is the compiler's own default. */
async function fastestLinker(executable: string, mold: boolean): Promise<Linker> {
  const versionOf = async (...flags: string[]) =>
    firstLine(await ask(executable, [...flags, '-Wl,--version']).catch(() => ''));
  for (const name of ['mold', 'lld', 'gold'] as const) {
    if (name === 'mold' && !mold) continue;
    const version = await versionOf(`-fuse-ld=${name}`);
    if (version !== '') return { name, version };
  }
  return { name: '', version: await versionOf() };
}

function advised({ name, version }: Linker): string {
  if (name === 'mold') return version;
  return `${version}; mold links in half the time (apt-get install mold)`;
}
