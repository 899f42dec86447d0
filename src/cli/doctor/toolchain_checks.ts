/** Which toolchain runs each language here, and which candidates were passed over. */
import { resolve } from 'node:path';
import { languageSwitches } from '../../config.ts';
import type { DebianPackage, Language } from '../../languages/common/language.ts';
import { BY_NAME } from '../../languages/common/registry.ts';
import { type FoundToolchains, findToolchains } from '../../languages/common/toolchains.ts';
import { type Check, type Finding, ok, warn } from './finding.ts';

export const toolchains: Check = {
  name: 'toolchains',
  look: async ({ config }) => {
    const languages = config.languages.map((name) => BY_NAME.get(name)!);
    const found = await findToolchains({
      languages,
      switches: languageSwitches(config),
      private_folders: [resolve(config.state_dir)],
    });
    return [...languages.map((language) => findingOf(found, language)), ...notesOf(found)];
  },
};

function findingOf({ toolchains, passed_over }: FoundToolchains, language: Language): Finding {
  const { name } = language;
  const skipped = passed_over
    .filter((one) => one.language === name)
    .map(({ candidate, why }) => `; not ${candidate}: ${why}`)
    .join('');
  const installed = toolchains.get(name);
  if (installed) return ok(name, `${installed.version} at ${installed.at}${skipped}`);
  return warn(name, `none on this machine${skipped}`, remedyFor(language));
}

function remedyFor({ packages }: Language): string {
  const needed = packages.filter(({ optional }) => !optional);
  const leaveOut = 'leave it out of RUNLEDGER_LANGUAGES';
  if (needed.length === 0) return leaveOut;
  return `apt-get install ${needed.map(withNote).join(' ')}, or ${leaveOut}`;
}

const withNote = ({ name, note }: DebianPackage) => (note ? `${name} (${note})` : name);

/** Languages that share a linker say the same about it, once. */
function notesOf({ toolchains }: FoundToolchains): Finding[] {
  const notes = [...toolchains.values()].flatMap(({ notes = [] }) => notes);
  const lines = new Map(notes.map((note) => [`${note.check} ${note.found}`, note]));
  return [...lines.values()].map(({ check, found }) => ok(check, found));
}
