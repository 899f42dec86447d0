/** Comparisons of large outputs: they hold up nothing else of the worker. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { compareOutput } from '../../src/executor/compare_outputs.ts';
import { type ContentCache, openContentCache } from '../../src/executor/content_cache.ts';
import { HeldContents } from '../../src/executor/held_contents.ts';
import type { Compare } from '../../src/judging/compare.ts';
import { contentStore } from './judgings.ts';

const NUMBERS: Compare = { by: 'tokens', case_sensitive: true, absolute: 0, relative: 1e-9 };
/** Equal, and every digit has to be read to know it. */
const OUTPUT = Buffer.alloc(1 << 20, '9 ');
const ANSWER = Buffer.alloc(19 << 19, '8.9999999999999999 ');

let cache: ContentCache;
const store = contentStore(1 << 18);

t.before(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-compare-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  cache = await openContentCache({ folder, max_bytes: 2 ** 30, fetch: store.fetch });
});

/** How often other work of this thread had its turn. */
async function turnsDuring<T>(work: Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0;
  let goes_on = true;
  const turn = () => {
    turns++;
    if (goes_on) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    return { result: await work, turns };
  } finally {
    goes_on = false;
  }
}

const compared = (compare: Compare, output: Uint8Array, answer: Uint8Array, signal = NEVER) => {
  const contents = new HeldContents(cache);
  return compareOutput(compare, output, store.put(answer), contents, signal).finally(() =>
    contents.release(),
  );
};
const NEVER = new AbortController().signal;

t.test('while a large output is compared, the worker does other work', async (t) => {
  await compared(NUMBERS, Buffer.from('1'), ANSWER);
  const { result, turns } = await turnsDuring(compared(NUMBERS, OUTPUT, ANSWER));
  t.equal(result.equal, true);
  t.ok(turns > 1000, `${turns} turns`);
});

t.test('large and small comparisons come to the same', async (t) => {
  for (const size of [10, 300_000]) {
    const output = Buffer.alloc(2 * size, '9 ');
    const answer = Buffer.alloc(4 * size, '9.0 ');
    t.match(await compared(NUMBERS, output, answer), { equal: true });
    t.match(await compared('lines', output, answer), { equal: false });
    t.match(await compared('exact', output, output), { equal: true });
  }
});

t.test('a comparison ends when its execution is cancelled, and the next one is made', async (t) => {
  const gone = new AbortController();
  const cut = compared(NUMBERS, OUTPUT, ANSWER, gone.signal);
  const waiting = compared('exact', OUTPUT, OUTPUT);
  setImmediate(() => gone.abort());
  await t.rejects(cut, { name: 'AbortError' });
  t.match(await waiting, { equal: true });
});
