import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { INODE_BYTES } from '../../src/executor/cache_files.ts';
import {
  bootId,
  CONTENT_PREFIX,
  type CompileCache,
  type CompileCacheOptions,
  openCompileCache,
  PREPARED_PREFIX,
} from '../../src/executor/compile_cache.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const source = (code: string, account_id = 'alice') => ({
  account_id,
  recipe: 'g++ 12 -O2',
  code: bytes(code),
});

async function write(cache: CompileCache, artefact: string, size = 10): Promise<void> {
  const folder = join(cache.artefacts_folder, artefact, 'program');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'main'), Buffer.alloc(size, 'x'));
}

async function compile(cache: CompileCache, code: string, account_id = 'alice', size = 10) {
  const artefact = cache.newArtefact();
  await write(cache, artefact, size);
  const key = cache.keyOf(source(code, account_id));
  return { key, held: cache.keep(key, account_id, { artefact, entry: 'Main', bytes: size }) };
}

/** What a cache still writes in the background is written before its folder goes. */
const opened: CompileCache[] = [];

/** Without a bound that any test reaches, unless the test sets one. */
async function open(
  options: Pick<CompileCacheOptions, 'folder'> & Partial<CompileCacheOptions>,
): Promise<CompileCache> {
  const cache = await openCompileCache({ max_bytes: 2 ** 30, max_entries: 1_000, ...options });
  opened.push(cache);
  return cache;
}

const test = (name: string, body: (t: Test) => Promise<void>) =>
  t.test(name, async (t) => {
    await body(t);
    for (const cache of opened.splice(0)) await cache.settled();
  });

/** What the disk has lost to its programs and their index entries. */
async function diskBytesOf(folder: string): Promise<number> {
  let sum = 0;
  for (const part of ['artefacts', 'index']) {
    for (const path of await readdir(join(folder, part), { recursive: true })) {
      const { blocks, size } = await stat(join(folder, part, path));
      sum += Math.max(blocks * 512, size) + INODE_BYTES;
    }
  }
  return sum;
}

const artefactsOf = (cache: CompileCache) => readdir(cache.artefacts_folder);

test('a kept program is found, by its own account alone', async (t) => {
  const cache = await open({ folder: t.testdir() });
  const { key, held } = await compile(cache, 'int main(){}');
  t.match(cache.find(key), { artefact: held.artefact, entry: 'Main', bytes: 10 });
  t.equal(cache.find(cache.keyOf(source('int main(){ }'))), null, 'another source');
  t.equal(cache.find(cache.keyOf(source('int main(){}', 'bob'))), null, 'another account');
  const otherRecipe = { ...source('int main(){}'), recipe: 'g++ 13 -O2' };
  t.equal(cache.find(cache.keyOf(otherRecipe)), null, 'another compiler');
});

test('keys keep their parts apart', async (t) => {
  const cache = await open({ folder: t.testdir() });
  const a = cache.keyOf({ account_id: 'a', recipe: 'bc', code: bytes('d') });
  const b = cache.keyOf({ account_id: 'ab', recipe: 'c', code: bytes('d') });
  t.not(a, b);
});

test('names on disk tell nothing: no two folders name one source alike', async (t) => {
  const one = await open({ folder: t.testdir({ a: {} }) });
  const two = await open({ folder: join(t.testdirName, 'a') });
  t.not(one.keyOf(source('x')), two.keyOf(source('x')));
  t.match(one.keyOf(source('x')), /^[0-9a-f]{64}$/);
});

test('it outlives its process', async (t) => {
  const folder = t.testdir();
  const first = await open({ folder });
  const { key, held } = await compile(first, 'x');
  await first.settled();
  const second = await open({ folder });
  t.match(second.find(key), { artefact: held.artefact, entry: 'Main', bytes: 10 });
});

test('the bound in bytes counts what the disk loses', async (t) => {
  for (const [count, size, max_bytes] of [
    [60, 10, 200_000],
    [12, 2 ** 20, 3.5 * 2 ** 20],
  ] as const) {
    const folder = t.testdir();
    const cache = await open({ folder, max_bytes });
    for (let n = 0; n < count; n++) {
      const { held } = await compile(cache, `${n}`, 'alice', size);
      held.release();
    }
    await cache.settled();
    const lost = await diskBytesOf(folder);
    t.ok(lost <= max_bytes, `${count} of ${size} bytes: ${lost} of ${max_bytes} on disk`);
    t.ok(lost > max_bytes / 2, 'and the room is used');
    t.equal(cache.size.disk_bytes, lost, 'it counts what a walk finds');
    t.ok(cache.find(cache.keyOf(source(`${count - 1}`))), 'the last one is kept');
    const again = await open({ folder, max_bytes });
    t.strictSame(again.size, cache.size, 'and counts the same after a restart');
  }
});

test('the bound in entries holds, also after a restart with a lower one', async (t) => {
  const folder = t.testdir();
  const cache = await open({ folder, max_entries: 20 });
  for (let n = 0; n < 50; n++) {
    const { held } = await compile(cache, `${n}`);
    held.release();
    t.ok(cache.size.entries <= 20);
  }
  await cache.settled();
  t.equal((await artefactsOf(cache)).length, cache.size.entries);
  t.equal((await readdir(join(folder, 'index'))).length, cache.size.entries);
  const fewer = await open({ folder, max_entries: 10 });
  await fewer.settled();
  t.ok(fewer.size.entries <= 10 && fewer.size.entries > 0);
  t.equal((await artefactsOf(fewer)).length, fewer.size.entries);
});

test('a lease can be shared while its program is there', async (t) => {
  const cache = await open({ folder: t.testdir(), max_bytes: 0 });
  const { held } = await compile(cache, 'a');
  const second = held.share();
  held.release();
  await cache.settled();
  t.strictSame(await artefactsOf(cache), [second?.artefact], 'the other still runs it');
  second?.release();
  t.equal(held.share(), null);
  await cache.settled();
  t.strictSame(await artefactsOf(cache), []);
});

test('the least recently used goes first, and the bound holds', async (t) => {
  const cache = await open({ folder: t.testdir(), max_entries: 3 });
  const a = await compile(cache, 'a');
  const b = await compile(cache, 'b');
  const c = await compile(cache, 'c');
  for (const { held } of [a, b, c]) held.release();
  cache.find(a.key)?.release();
  const d = await compile(cache, 'd');
  t.ok(cache.find(a.key), 'was used after b and c');
  t.equal(cache.find(b.key), null);
  t.ok(cache.find(d.key));
  await cache.settled();
  t.equal((await artefactsOf(cache)).length, cache.size.entries);
});

test('the order of use outlives the process too', async (t) => {
  const folder = t.testdir();
  let now = Date.now();
  const first = await open({ folder, now: () => now });
  const a = await compile(first, 'a');
  await first.settled();
  now += 1_000;
  const b = await compile(first, 'b');
  await first.settled();
  now += 60 * 60 * 1_000;
  first.find(a.key);
  await first.settled();
  const marked = await stat(join(folder, 'index', a.key));
  now += 1_000;
  first.find(a.key);
  await first.settled();
  t.equal(
    (await stat(join(folder, 'index', a.key))).mtimeMs,
    marked.mtimeMs,
    'not marked at each use',
  );
  const second = await open({ folder, max_entries: 1, now: () => now });
  t.equal(second.find(b.key), null);
  t.ok(second.find(a.key), 'the one that was used last');
});

for (const [what, count, size, bounds] of [
  ['bytes', 20, 2 ** 20, { max_bytes: 5 * 2 ** 20 }],
  ['entries', 50, 10, { max_entries: 20 }],
] as const) {
  test(`an account that takes all ${what} evicts its own programs alone`, async (t) => {
    const folder = t.testdir();
    const cache = await open({ folder, ...bounds });
    const hello = await compile(cache, 'hello', 'alice', 2 ** 20);
    hello.held.release();
    for (let n = 0; n < count; n++) {
      const { held } = await compile(cache, `${n}`, 'bob', size);
      held.release();
    }
    await cache.settled();
    t.ok(cache.find(hello.key), 'the other account has less, and keeps it');
    t.equal(cache.find(cache.keyOf(source('0', 'bob'))), null, 'its own oldest is gone');
    t.ok(cache.find(cache.keyOf(source(`${count - 1}`, 'bob'))), 'its own newest is there');
    const fewer = { max_bytes: 3.5 * 2 ** 20, max_entries: 8 };
    const again = await open({ folder, ...fewer });
    t.ok(again.find(hello.key), 'also after a restart with lower bounds');
    t.ok(again.size.entries <= 8 && again.size.disk_bytes <= fewer.max_bytes);
  });
}

test('what is in use stays until it is released', async (t) => {
  const cache = await open({ folder: t.testdir(), max_entries: 1 });
  const a = await compile(cache, 'a');
  const again = cache.find(a.key);
  await compile(cache, 'b');
  await cache.settled();
  t.equal(cache.find(a.key), null, 'no later run finds it');
  t.ok((await artefactsOf(cache)).includes(a.held.artefact), 'but its files are there');
  a.held.release();
  a.held.release();
  await cache.settled();
  t.ok((await artefactsOf(cache)).includes(a.held.artefact), 'for the second holder');
  again?.release();
  await cache.settled();
  t.notOk((await artefactsOf(cache)).includes(a.held.artefact));
});

test('a bound of nothing keeps nothing beyond the run', async (t) => {
  const folder = t.testdir();
  const cache = await open({ folder, max_bytes: 0 });
  const { key, held } = await compile(cache, 'a');
  t.equal(cache.find(key), null);
  await cache.settled();
  t.strictSame(await artefactsOf(cache), [held.artefact]);
  held.release();
  await cache.settled();
  t.strictSame(await artefactsOf(cache), []);
  t.strictSame(await readdir(join(folder, 'index')), []);
});

test('two that compile one source at once do not meet', async (t) => {
  const folder = t.testdir();
  const cache = await open({ folder });
  const [a, b] = await Promise.all([compile(cache, 'x'), compile(cache, 'x')]);
  t.not(a.held.artefact, b.held.artefact);
  t.equal(cache.size.entries, 1);
  await cache.settled();
  t.equal((await artefactsOf(cache)).length, 2, 'both still run');
  a.held.release();
  b.held.release();
  await cache.settled();
  const kept = cache.find(a.key);
  t.strictSame(await artefactsOf(cache), [kept?.artefact]);
  const reopened = await open({ folder });
  t.equal(reopened.find(a.key)?.artefact, kept?.artefact, 'and on disk it is the same one');
});

test('two processes over one folder never break each other', async (t) => {
  const folder = t.testdir();
  const one = await open({ folder });
  const two = await open({ folder });
  t.equal(one.keyOf(source('x')), two.keyOf(source('x')), 'they name alike');
  const a = await compile(one, 'x');
  const b = await compile(two, 'x');
  await Promise.all([one.settled(), two.settled()]);
  const artefacts = await artefactsOf(one);
  t.ok(artefacts.includes(a.held.artefact) && artefacts.includes(b.held.artefact));
  const third = await open({ folder });
  t.ok(third.find(a.key));
});

test('a crash half-way leaves nothing that is believed, and nothing for long', async (t) => {
  const folder = t.testdir();
  const first = await open({ folder });
  const whole = await compile(first, 'whole');
  const lost = await compile(first, 'lost');
  await first.settled();
  const index = join(folder, 'index');
  // Its artefact is gone, an entry is half written, and an artefact has no entry.
  await rm(join(first.artefacts_folder, lost.held.artefact), { recursive: true });
  await writeFile(join(index, 'f'.repeat(64)), '{"artefact":"ab');
  await write(first, 'orphan');
  await write(first, `${CONTENT_PREFIX}of-a-set`);

  const soon = await open({ folder });
  t.ok(soon.find(whole.key));
  t.equal(soon.find(lost.key), null);
  t.strictSame(await readdir(index), [whole.key]);
  t.ok((await artefactsOf(soon)).includes('orphan'), 'it may be on its way to an entry');

  const inTwoHours = () => Date.now() + 2 * 60 * 60 * 1000;
  const later = await open({ folder, now: inTwoHours });
  const left = [whole.held.artefact, `${CONTENT_PREFIX}of-a-set`];
  t.strictSame(
    new Set(await artefactsOf(later)),
    new Set(left),
    'files of sets have another cache',
  );
});

test('a program that it may not remove keeps no worker from starting', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-left-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const first = await open({ folder });
  for (const artefact of ['of-root', 'too']) {
    await write(first, artefact);
    await chmod(join(first.artefacts_folder, artefact), 0o555);
  }
  await write(first, 'own');
  const is_root = process.geteuid!() === 0;
  if (is_root) {
    const ofProgram = ['', '/program', '/program/main'].map((path) => `artefacts/own${path}`);
    const own = ['', 'secret', 'index', 'artefacts', ...ofProgram];
    for (const path of own) await chown(join(folder, path), 65_534, 65_534);
    process.seteuid!(65_534);
  }
  const said: [string, string | undefined][] = [];
  try {
    const second = await open({
      folder,
      now: () => Date.now() + 2 * 60 * 60 * 1000,
      log: (message, error: NodeJS.ErrnoException) => said.push([message, error.code]),
    });
    t.strictSame((await artefactsOf(second)).sort(), ['of-root', 'too']);
  } finally {
    if (is_root) process.seteuid!(0);
  }
  t.strictSame(said, [['2 old compiled programs could not be removed', 'EACCES']]);
  for (const artefact of ['of-root', 'too'])
    await chmod(join(first.artefacts_folder, artefact), 0o755);
});

test('what was prepared for all accounts goes when no process has used it for a day', async (t) => {
  const folder = t.testdir();
  const first = await open({ folder });
  const prepared = `${PREPARED_PREFIX}${await bootId()}-0123`;
  await write(first, prepared);
  t.strictSame(first.size, { entries: 0, disk_bytes: 0 }, 'no account causes it');
  const afterHours = (hours: number) => open({ folder, now: () => Date.now() + hours * 3_600_000 });
  t.strictSame(await artefactsOf(await afterHours(23)), [prepared]);
  t.strictSame(await artefactsOf(await afterHours(25)), []);
});

test('what was written before the machine last started is not trusted', async (t) => {
  const folder = t.testdir();
  const first = await open({ folder });
  const { key } = await compile(first, 'x');
  await first.settled();
  const file = join(folder, 'index', key);
  const stored = JSON.parse(await readFile(file, 'utf8'));
  await writeFile(file, JSON.stringify({ ...stored, boot: 'another' }));
  const second = await open({ folder });
  t.equal(second.find(key), null);
});

test('what nobody ran for a week is gone', async (t) => {
  const folder = t.testdir();
  const first = await open({ folder });
  const { key } = await compile(first, 'x');
  await first.settled();
  const day = 24 * 60 * 60 * 1000;
  const sixth = await open({
    folder,
    now: () => Date.now() + 6 * day,
  });
  t.ok(sixth.find(key));
  await sixth.settled();
  const later = () => Date.now() + 14 * day;
  const last = await open({ folder, now: later });
  t.equal(last.find(key), null);
});

test('a purge leaves no copy: of one source, or of an account', async (t) => {
  const folder = t.testdir();
  const cache = await open({ folder });
  const a = await compile(cache, 'a');
  const b = await compile(cache, 'b');
  const other = await compile(cache, 'a', 'bob');
  for (const { held } of [a, b, other]) held.release();
  t.equal(cache.purge('alice', source('a')), 1);
  t.equal(cache.find(a.key), null);
  t.ok(cache.find(b.key));
  t.equal(cache.purge('alice'), 1);
  cache.find(b.key);
  t.equal(cache.find(b.key), null);
  t.ok(cache.find(other.key), 'other accounts keep theirs');
  await cache.settled();
  t.strictSame(await readdir(join(folder, 'index')), [other.key]);
});

test('an artefact that cannot be used is forgotten', async (t) => {
  const cache = await open({ folder: t.testdir() });
  const { key } = await compile(cache, 'x');
  cache.forget(key);
  t.equal(cache.find(key), null);
});

test('room is made by the programs that nothing uses', async (t) => {
  const cache = await open({ folder: t.testdir() });
  const used = await compile(cache, 'used');
  const unused = await compile(cache, 'unused');
  unused.held.release();
  t.equal(await cache.makeRoom(), true);
  t.same(await artefactsOf(cache), [used.held.artefact]);
  t.equal(cache.find(unused.key), null);
  t.equal(await cache.makeRoom(), false, 'the other is in use');
});
