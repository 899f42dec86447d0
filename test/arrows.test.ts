/**
 * Who may import whom. A room knows what stands in its row, and itself; `domain` knows nobody. Only
 * main, parts and the command line compose, so config and connections come to everyone as arguments.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { importsOf, sourcesBelow } from './support/imports.ts';

/** The first folder below src, or the file itself. */
const room = (path: string) => /^src\/([a-z_]+)/.exec(path)?.[1] ?? path;

const NODE_ONLY: readonly string[] = [];
const MAY: Readonly<Record<string, readonly string[]>> = {
  domain: ['valibot'],
  config: ['valibot', 'config'],
  environment: ['config'],
  log: ['pino'],
  metrics: NODE_ONLY,
  db: ['postgres', 'config', 'db_arrays'],
  db_arrays: NODE_ONLY,
  store: ['db', 'domain', 'config', 'postgres'],
  access: ['db', 'domain'],
  executor: ['domain', 'log', 'metrics'],
  webhooks: ['domain', 'log', 'metrics'],
  queue: ['store', 'executor', 'webhooks', 'domain', 'access', 'db', 'config', 'log', 'metrics'],
  http: [
    'store',
    'access',
    'domain',
    'db',
    'config',
    'log',
    'metrics',
    'polka',
    'valibot',
    '@valibot/to-json-schema',
  ],
  client: ['domain'],
  local: ['db', 'config'],
};
/** The queue library, and the client that it is built on, in the two places that speak to it. */
const QUEUE_LIBRARY = new Set(['graphile-worker', 'pg']);
const KNOW_THE_QUEUE_LIBRARY = new Set(['src/queue/delivery_runner.ts', 'src/store/migrate.ts']);
/** These put the rooms together and may know all of them. */
const COMPOSE = new Set(['main', 'parts', 'cli']);

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

t.test(
  'domain and the executor read no files, clocks or sockets of their own accord',
  async (t) => {
    const impure = /^node:(fs|net|http|https|dgram|child_process|timers)/;
    for (const { from, to } of all.filter(({ from }) => room(from) === 'domain')) {
      t.notMatch(to, impure, `${from} imports ${to}`);
    }
  },
);

t.test('only the delivery runner and the migrations know graphile-worker', async (t) => {
  for (const { from } of all.filter(({ to }) => QUEUE_LIBRARY.has(to))) {
    t.ok(KNOW_THE_QUEUE_LIBRARY.has(from), from);
  }
});

t.test('nobody imports who composes', async (t) => {
  for (const { from, to } of outward.filter(({ to }) => COMPOSE.has(room(to)))) {
    t.ok(COMPOSE.has(room(from)), `${from} imports ${to}`);
  }
});

t.test('what is imported is there', async (t) => {
  for (const { from, to } of all.filter(({ to }) => to.startsWith('src/'))) {
    t.ok(existsSync(to), `${from} imports ${to}`);
  }
});

t.test(
  'no file is dead: each can be reached from the command line or is named in a document',
  async (t) => {
    const documents = readdirSync('.').filter((name) => name.endsWith('.md'));
    const prose = documents.map((name) => readFileSync(name, 'utf8')).join();
    const named = sourcesBelow('src').filter((file) => prose.includes(file));
    const roots = ['src/cli/main.ts', ...named];
    const reached = new Set<string>();
    const visit = (file: string): void => {
      if (reached.has(file)) return;
      reached.add(file);
      for (const { to } of all.filter(({ from }) => from === file)) visit(to);
    };
    for (const root of roots) visit(root);
    for (const file of sourcesBelow('src')) t.ok(reached.has(file), `${file} is reached`);
  },
);
