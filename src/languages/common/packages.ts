/**
 * Prints the Debian packages of the languages that are on, one a line: "needed COMMAND PACKAGE", or
 * "optional COMMAND PACKAGE". `src/local/toolchains.sh` reads it. It imports nothing but this folder, so
 * it runs before any package of npm is there.
 */
import { BY_NAME, ON_BY_DEFAULT } from './registry.ts';

const given = process.env['RUNLEDGER_LANGUAGES']?.trim();
const on = given ? given.split(',').map((name) => name.trim()) : ON_BY_DEFAULT;
const packages = on.flatMap((name) => BY_NAME.get(name)?.packages ?? []);
const lines = packages.map(
  ({ name, command, optional }) => `${optional ? 'optional' : 'needed'} ${command} ${name}`,
);
for (const line of new Set(lines)) console.log(line);
