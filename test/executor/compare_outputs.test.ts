/** Comparisons of large outputs: they hold up nothing else of the worker. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import t from 'tap';
import { compareOutput } from '../../src/executor/compare_outputs.ts';
import { type ContentCache, openContentCache } from '../../src/executor/content_cache.ts';
import { HeldContents } from '../../src/executor/held_contents.ts';
import type { Compare } from '../../src/judging/compare.ts';
import { contentStore, damage } from './judgings.ts';

const NUMBERS: Compare = { by: 'tokens', case_sensitive: true, absolute: 0, relative: 1e-9 };
/** Equal, and every digit has to be read to know it. */
const OUTPUT = Buffer.alloc(1 << 20, '9 ');
const ANSWER = Buffer.alloc(19 << 19, '8.9999999999999999 ');

let cache: ContentCache;
const store = contentStore(1 << 18);

t.before(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-compare-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  cache = await openContentCache({
    folder,
    max_bytes: 2 ** 30,
    max_entries: 1_000,
    others: [],
    fetch: store.fetch,
  });
});

const compared = (compare: Compare, output: Uint8Array, answer: Uint8Array, signal = NEVER) => {
  const contents = new HeldContents(cache, signal);
  return compareOutput(compare, output, store.put(answer), contents, 'acme', signal).finally(() =>
    contents.release(),
  );
};
const NEVER = new AbortController().signal;

// The first test, because here no thread rests that it could use.
t.test('a large comparison leaves the worker free: it can be cancelled', async (t) => {
  const gone = new AbortController();
  // The event of the thread comes to this one before its answer.
  let answered = false;
  const onThread = (message: unknown) => {
    const { worker } = message as { worker: Worker };
    worker.once('online', () => gone.abort()).once('message', () => (answered = true));
  };
  subscribe('worker_threads', onThread);
  const cut = compared(NUMBERS, OUTPUT, ANSWER, gone.signal).finally(() =>
    unsubscribe('worker_threads', onThread),
  );
  const waiting = cut.catch(() => {}).then(() => compared('exact', OUTPUT, ANSWER));
  await t.rejects(cut, { name: 'SandboxFault', message: 'the run was cancelled' });
  t.match(await waiting, { equal: false }, 'and the next one gets an answer of its own');
  t.notOk(answered, 'its thread was ended');
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

t.test('a thread makes one comparison after the other, until it has read much', async (t) => {
  const threads: Worker[] = [];
  const onThread = (message: unknown) => void threads.push((message as { worker: Worker }).worker);
  subscribe('worker_threads', onThread);
  t.teardown(() => unsubscribe('worker_threads', onThread));
  const much = Buffer.alloc(17 << 20, '9 ');
  // It ends the thread of the test before.
  t.match(await compared('exact', much, much), { equal: true });
  t.match(await compared('exact', OUTPUT, OUTPUT), { equal: true });
  t.match(await compared('exact', OUTPUT, ANSWER), { equal: false });
  t.equal(threads.length, 1, 'the two had one thread');
  t.match(await compared('exact', much, much), { equal: true });
  t.equal(threads.length, 1, 'and so had one that read much');
  const few = Buffer.alloc(20_000, '9 ');
  t.match(await compared(NUMBERS, few, few), { equal: true });
  t.equal(
    threads.length,
    2,
    'its memory was given back; and numbers that may differ are many soon',
  );
  await threads[1]!.terminate();
  t.match(await compared('exact', OUTPUT, OUTPUT), { equal: true });
  t.equal(threads.length, 3, 'one that ended while it rested is replaced');
});

t.test('accounts take turns, and who is cancelled stops waiting', async (t) => {
  const ended: string[] = [];
  const gone = new AbortController();
  const contents = new HeldContents(cache, NEVER);
  const one = (account: string, name: string, signal = NEVER) =>
    compareOutput('exact', OUTPUT, { bytes: OUTPUT }, contents, account, signal).then(
      () => ended.push(name),
      ({ kind }) => ended.push(`${name} ${kind}`),
    );
  const all = [one('acme', 'a1'), one('acme', 'a2', gone.signal), one('acme', 'a3')];
  all.push(one('acme', 'a4'), one('other', 'b1'));
  gone.abort();
  await Promise.all(all);
  t.same(ended, ['a2 cancelled', 'a1', 'b1', 'a3', 'a4']);
});

t.test(
  'an answer that changed on the disk after its hash was checked is not compared',
  async (t) => {
    for (const size of [10, 600_000]) {
      const answer = Buffer.alloc(size, `${size} `);
      const content = store.put(answer);
      const contents = new HeldContents(cache, NEVER);
      await damage(await contents.pathOf(content), 0);
      const ends = compareOutput('exact', answer, content, contents, 'acme', NEVER);
      await t.rejects(ends, { message: /changed/ }, `${size} bytes`);
      contents.release();
    }
  },
);
