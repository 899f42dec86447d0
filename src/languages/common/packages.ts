/**
 * Prints packages.txt: a line for each Debian package of each language, "LANGUAGE default needed COMMAND PACKAGE". Several names
 * are between commas: the first is taken that the release has.
 * `src/local/toolchains.sh` reads the file, on machines where no Node that could run this is there yet.
 *
 *   node src/languages/common/packages.ts > src/languages/common/packages.txt
 */
import { LANGUAGES } from './registry.ts';

for (const { name: language, default_rank, packages } of LANGUAGES)
  for (const { name, rather = [], command, optional } of packages) {
    const on = default_rank === undefined ? 'other' : 'default';
    console.log(language, on, optional ? 'optional' : 'needed', command, [...rather, name].join());
  }
