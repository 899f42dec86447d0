/** C, by gcc. */
import { ARTEFACT, type GnuLanguage, MOLD_PACKAGE, MOLD_SWITCH, probeGnu } from './common/gnu.ts';
import { type Language, NO_NEEDS } from './common/language.ts';

const gnu: GnuLanguage = {
  is: /\bgcc\b/i,
  command: 'gcc',
  source: 'main.c',
  is_source: /\.c$/,
  flags: ['-O2', '-std=gnu17'],
  // Unlike g++, gcc does not link the mathematical functions unless asked.
  libraries: ['-lm'],
};

export const language: Language = {
  name: 'c',
  title: 'C',
  aliases: [],
  endings: ['c'],
  packages: [{ name: 'gcc', command: 'gcc' }, MOLD_PACKAGE],
  switches: [MOLD_SWITCH],
  hello: '#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); }',
  source: gnu.source,
  artefact: ARTEFACT,
  has_no_main_source: true,
  needs: NO_NEEDS,
  // malloc answers NULL and the program decides: the runtime itself reports nothing.
  out_of_memory_words: [],
  candidates: ({ named }) => named('gcc'),
  probe: (executable, isOn) =>
    probeGnu(gnu, executable, isOn, (tools) => ({
      steps: (sources) => [{ by: 'plain', ...tools.compile(sources), files: [], load: [] }],
    })),
};
