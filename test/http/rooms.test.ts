/**
 * The rooms of src/http import in one direction: wire knows no other room, api knows wire, document knows both, console
 * knows all three, and the files beside them compose.
 */
import t from 'tap';
import { importsOf, sourcesBelow } from '../support/imports.ts';

const MAY: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  api: ['wire'],
  document: ['wire', 'api'],
  console: ['wire', 'api', 'document'],
  '': ['wire', 'api', 'document', 'console'],
};

const files = sourcesBelow('src/http');
const imports = files.flatMap(importsOf).filter(({ to }) => to.startsWith('src/http/'));
const room = (path: string) => /^src\/http\/([a-z]+)\//.exec(path)?.[1] ?? '';

t.test('each room imports only the rooms in its row', async (t) => {
  for (const { from, to } of imports.filter(({ from, to }) => room(from) !== room(to))) {
    t.ok(MAY[room(from)]?.includes(room(to)), `${from} imports ${to}`);
  }
});
