/**
 * The rooms of src/http import in one direction: wire knows no other room, api knows wire, document knows both, and the
 * files beside them compose. No file imports itself by way of others, and each has a name of its own.
 */
import { basename } from 'node:path';
import t from 'tap';
import { importsOf, sourcesBelow } from '../support/imports.ts';

const MAY: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  api: ['wire'],
  document: ['wire', 'api'],
  '': ['wire', 'api', 'document'],
};

const files = sourcesBelow('src/http');
const imports = files.flatMap(importsOf).filter(({ to }) => to.startsWith('src/http/'));
const room = (path: string) => /^src\/http\/([a-z]+)\//.exec(path)?.[1] ?? '';

t.test('each room imports only the rooms in its row', async (t) => {
  for (const { from, to } of imports.filter(({ from, to }) => room(from) !== room(to))) {
    t.ok(MAY[room(from)]?.includes(room(to)), `${from} imports ${to}`);
  }
});

t.test('no import leads back to its file', async (t) => {
  const reaches = (from: string, seen = new Set<string>()): Set<string> => {
    for (const { to } of imports.filter((one) => one.from === from)) {
      if (seen.has(to)) continue;
      seen.add(to);
      reaches(to, seen);
    }
    return seen;
  };
  for (const file of files) t.notOk(reaches(file).has(file), file);
});

t.test('no other source file has the name of one of these', async (t) => {
  const names = sourcesBelow('src').map((file) => basename(file));
  for (const file of files) {
    t.equal(names.filter((name) => name === basename(file)).length, 1, file);
  }
});
