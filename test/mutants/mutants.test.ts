/** Each mutant changes the code as it is today. Whether its tests notice is what `make mutants` finds out. */
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { mutants } from './mutants.ts';

t.test('what a mutant replaces is in its file, once', async (t) => {
  for (const { file, find, replace, why } of mutants) {
    t.equal(readFileSync(file, 'utf8').split(find).length - 1, 1, `${file}: ${why}: ${find}`);
    t.not(find, replace, why);
  }
});

t.test('its tests are there', async (t) => {
  const files = new Set(mutants.flatMap(({ tests }) => tests.map((test) => test.split(' ')[0]!)));
  for (const file of files) t.ok(existsSync(file), file);
});
