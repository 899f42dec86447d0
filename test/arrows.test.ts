/**
 * Which file may import which. A room (a folder of src) may import what its row names, and itself. `domain` imports no
 * other room. Only processes and the command line compose rooms; every other file gets its configuration and its
 * connections as arguments. No files import each other in a circle, and no two modules have the same name.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import t from 'tap';
import { circlesIn, importsOf, sourcesBelow } from './support/imports.ts';

/** The first folder below src, or the file itself. */
const room = (path: string) => /^src\/([a-z_]+)/.exec(path)?.[1] ?? path;

const NODE_ONLY: readonly string[] = [];
const MAY: Readonly<Record<string, readonly string[]>> = {
  domain: ['valibot'],
  judging: ['domain', 'languages', 'valibot', 'yauzl', 'js-yaml'],
  witness: ['proof', 'log', 'metrics', 'listen'],
  proof: ['domain'],
  languages: ['domain'],
  config: ['valibot', 'config', 'domain', 'languages', 'proof'],
  environment: ['config'],
  log: ['pino'],
  marks: NODE_ONLY,
  own_thread: NODE_ONLY,
  turn_end: NODE_ONLY,
  metrics: NODE_ONLY,
  db: ['postgres', 'config', 'db_arrays', 'db_errors', 'db_losses', 'db_settings', 'db_values'],
  db_arrays: NODE_ONLY,
  db_errors: NODE_ONLY,
  db_losses: ['postgres', 'fault'],
  db_settings: NODE_ONLY,
  db_values: NODE_ONLY,
  store: [
    'marks',
    'turn_end',
    'db',
    'db_errors',
    'fault',
    'db_settings',
    'domain',
    'judging',
    'proof',
    'config',
    'postgres',
  ],
  access: ['db', 'domain'],
  executor: ['domain', 'judging', 'languages', 'log', 'metrics', 'own_thread'],
  webhooks: ['domain', 'log', 'metrics'],
  queue: [
    'marks',
    'store',
    'proof',
    'witness',
    'executor',
    'webhooks',
    'domain',
    'judging',
    'access',
    'db',
    'db_settings',
    'config',
    'fault',
    'log',
    'metrics',
  ],
  http: [
    'marks',
    'turn_end',
    'store',
    'access',
    'domain',
    'judging',
    'languages',
    'db',
    'config',
    'fault',
    'listen',
    'log',
    'metrics',
    'polka',
    'valibot',
    '@valibot/to-json-schema',
  ],
  client: ['domain'],
  local: ['db', 'config', 'fault'],
  fault: NODE_ONLY,
  listen: ['fault'],
  version: NODE_ONLY,
};
/** The queue library and its database client: only these two files use them. */
const QUEUE_LIBRARY = new Set(['graphile-worker', 'pg']);
const KNOW_THE_QUEUE_LIBRARY = new Set(['src/queue/delivery_runner.ts', 'src/store/migrate.ts']);
/** These compose the rooms and may import all of them. */
const COMPOSE = new Set(['processes', 'cli']);

/** An id of this moment has its time. */
const KNOWS_THE_TIME = new Set(['src/domain/ids.ts']);

const all = sourcesBelow('src').flatMap(importsOf);
const outward = all.filter(({ from, to }) => !to.startsWith('node:') && room(from) !== room(to));

t.test('each room imports only what its row names', async (t) => {
  const ruled = outward.filter(
    ({ from, to }) => !COMPOSE.has(room(from)) && !QUEUE_LIBRARY.has(to),
  );
  for (const { from, to } of ruled) {
    t.ok(MAY[room(from)]?.includes(room(to)), `${from} imports ${to}`);
  }
});

t.test('of other rooms, languages import only types', async (t) => {
  for (const { from, to, typeOnly } of outward.filter(({ from }) => room(from) === 'languages')) {
    t.ok(typeOnly, `${from} imports ${to}`);
  }
});

t.test('only the registry imports a language, and no language imports another', async (t) => {
  const folder = /^src\/languages\/(?!common\/)([a-z0-9_]+)/;
  for (const { from, to } of all.filter(({ to }) => folder.test(to))) {
    t.equal(folder.exec(from)?.[1], folder.exec(to)?.[1], `${from} imports ${to}`);
  }
});

t.test('domain reads no files, clocks or sockets', async (t) => {
  const impure = /^node:(fs|net|http|https|dgram|child_process|timers)/;
  for (const { from, to } of all.filter(({ from }) => room(from) === 'domain')) {
    t.notMatch(to, impure, `${from} imports ${to}`);
  }
  const asks = /\bDate\.now\b|\bnew Date\(\)|\bperformance\.|\bMath\.random\b/;
  for (const file of sourcesBelow('src').filter((file) => room(file) === 'domain')) {
    if (KNOWS_THE_TIME.has(file)) t.match(readFileSync(file, 'utf8'), asks, file);
    else t.notMatch(readFileSync(file, 'utf8'), asks, file);
  }
});

t.test('only the delivery runner and the migrations import graphile-worker', async (t) => {
  for (const { from } of all.filter(({ to }) => QUEUE_LIBRARY.has(to))) {
    t.ok(KNOW_THE_QUEUE_LIBRARY.has(from), from);
  }
});

t.test('no room imports processes or the command line', async (t) => {
  for (const { from, to } of outward.filter(({ to }) => COMPOSE.has(room(to)))) {
    t.ok(COMPOSE.has(room(from)), `${from} imports ${to}`);
  }
});

t.test('every imported file exists', async (t) => {
  for (const { from, to } of all.filter(({ to }) => to.startsWith('src/'))) {
    t.ok(existsSync(to), `${from} imports ${to}`);
  }
});

// Imports of types count, too: files in a circle cannot be understood one at a time, whatever they import.
t.test('no files import each other in a circle', async (t) => {
  const imports = ['src', 'test', 'bench'].flatMap(sourcesBelow).flatMap(importsOf);
  t.strictSame(circlesIn(imports), []);
});

t.test('a circle is found whole, and only a circle', async (t) => {
  const graph = (...pairs: string[]) => pairs.map((pair) => ({ from: pair[0]!, to: pair[1]! }));
  t.strictSame(circlesIn(graph('ab', 'ac', 'bd', 'cd')), []);
  t.strictSame(circlesIn(graph('ab', 'bc', 'ca', 'cd', 'xa')), [['a', 'b', 'c']]);
  t.strictSame(circlesIn(graph('ab', 'bc', 'cb', 'ca', 'de', 'ed')), [
    ['a', 'b', 'c'],
    ['d', 'e'],
  ]);
  t.strictSame(circlesIn(graph('aa')), [['a']]);
});

// A name in a stack trace, a search or a sentence must mean one file. Entries repeat, because their folder names them;
// so do the files of languages, which are called by the language wherever a language has a file of its own.
t.test('no two modules of src have the same name', async (t) => {
  const ENTRIES = new Set(['main.ts', 'index.ts']);
  const byName = Map.groupBy(
    sourcesBelow('src').filter((file) => !file.startsWith('src/languages/')),
    (file) => basename(file),
  );
  for (const [name, files] of byName) {
    if (!ENTRIES.has(name)) t.equal(files.length, 1, files.join(', '));
  }
});

t.test('every file can be reached from the command line, or a document names it', async (t) => {
  const documents = readdirSync('.').filter((name) => name.endsWith('.md'));
  const prose = documents.map((name) => readFileSync(name, 'utf8')).join();
  const named = sourcesBelow('src').filter((file) => prose.includes(file));
  // The registry reads its folder, so each language is a root.
  const languages = sourcesBelow('src/languages').filter((file) => !file.includes('/common/'));
  const reached = new Set<string>();
  const visit = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const { to } of all.filter(({ from }) => from === file)) visit(to);
  };
  for (const root of ['src/cli/command_line.ts', ...languages, ...named]) visit(root);
  for (const file of sourcesBelow('src')) t.ok(reached.has(file), `${file} is reached`);
});

t.test('no pattern of match is an empty list, which is like any list', async (t) => {
  for (const file of sourcesBelow('test'))
    for (const pattern of patternsIn(readFileSync(file, 'utf8')))
      t.notOk(pattern.includes('[]'), `${file}: matchLists, or strictSame: ${pattern}`);
  const calls = ["f('a,', []), { b: 1 }", '\n  [a, b],\n  [],\n'].map(
    (call) => `t.match(${call});\n`,
  );
  t.strictSame(patternsIn(calls.join('')), [' { b: 1 }', '\n  [],\n']);
});

/** What follows the first argument, of each call. */
function patternsIn(source: string): string[] {
  const calls = [...source.matchAll(/\bt\.match\(([\s\S]*?)\);\n/g)].map(([, call]) => call!);
  return calls.map((call) => {
    let depth = 0;
    for (const { 0: part, index } of call.matchAll(/'[^'\n]*'|`[^`]*`|[([{]|[)\]}]|,/g)) {
      if ('([{'.includes(part)) depth += 1;
      else if (')]}'.includes(part)) depth -= 1;
      else if (part === ',' && depth === 0) return call.slice(index + 1);
    }
    return '';
  });
}
