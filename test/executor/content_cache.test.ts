/** A real folder; only the source of the contents is made up. A process that is killed is a real one. */
import { execFileSync, fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs_sync from 'node:fs';
import fs, {
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ContentCache, openContentCache } from '../../src/executor/content_cache.ts';
import { HeldContents } from '../../src/executor/held_contents.ts';
import { contentStore, damage } from './judgings.ts';

async function aCache(t: Test, max_bytes = 2 ** 20, max_entries = 1_000) {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-contents-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const store = contentStore();
  const bounds = { max_bytes, max_entries, others: [] };
  const reopen = () => openContentCache({ folder, ...bounds, fetch: store.fetch });
  return { folder, store, cache: await reopen(), reopen };
}

/** What a file of a few bytes takes here. */
async function smallFileBytes(t: Test): Promise<number> {
  const { store, cache } = await aCache(t);
  (await cache.hold(store.put('aaaa').file)).release();
  return cache.size.disk_bytes;
}

const sha256Of = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

t.test('a file is fetched once, and held files have the bytes of their hash', async (t) => {
  const { folder, store, cache, reopen } = await aCache(t);
  const { file } = store.put('the input of a test');
  const all = await Promise.all([cache.hold(file), cache.hold(file), cache.hold(file)]);
  t.equal(new Set(all.map(({ path }) => path)).size, 1);
  t.equal(await readFile(all[0]!.path, 'utf8'), 'the input of a test');
  t.equal(all[0]!.path, join(folder, all[0]!.key));
  t.equal((await lstat(all[0]!.path)).mode & 0o777, 0o444, 'boxes of any user read it');
  for (const held of all) held.release();
  (await cache.hold(file)).release();
  (await (await reopen()).hold(file)).release();
  t.equal(store.fetched.length, 1, 'and a restart fetches nothing');
  t.equal(cache.size.files, 1);
});

t.test('without a descriptor, nothing is known of a file, and it stays', async (t) => {
  const { store, cache } = await aCache(t);
  const { file } = store.put('bytes');
  const held = await cache.hold(file);
  const { openSync } = fs_sync;
  const restore = () => {
    fs_sync.openSync = openSync;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  // As the kernel does, to this process.
  fs_sync.openSync = () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  };
  syncBuiltinESMExports();
  await t.rejects(cache.hold(file), { code: 'EMFILE' });
  restore();
  t.equal(await readFile(held.path, 'utf8'), 'bytes');
  held.release();
  (await cache.hold(file)).release();
  t.equal(store.fetched.length, 1);
});

t.test('a file that cannot be read for another reason is fetched again', async (t) => {
  const { store, cache } = await aCache(t);
  const { file } = store.put('bytes');
  (await cache.hold(file)).release();
  const { openSync } = fs_sync;
  const restore = () => {
    fs_sync.openSync = openSync;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  // As the kernel does for a damaged inode.
  fs_sync.openSync = () => {
    restore();
    throw Object.assign(new Error('EUCLEAN: structure needs cleaning'), { code: 'EUCLEAN' });
  };
  syncBuiltinESMExports();
  (await cache.hold(file)).release();
  t.equal(store.fetched.length, 2);
});

t.test('a file that another worker removes while this one starts is not there', async (t) => {
  const { folder, store, cache, reopen } = await aCache(t);
  for (const text of ['stays', 'goes']) (await cache.hold(store.put(text).file)).release();
  const gone = await cache.hold(store.put('goes').file);
  gone.release();
  const { readdir } = fs;
  const restore = () => {
    fs.readdir = readdir;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  fs.readdir = (async (path: string) => {
    const names = await readdir(path);
    if (path === folder) await rm(gone.path);
    return names;
  }) as typeof readdir;
  syncBuiltinESMExports();
  const opened = await reopen();
  restore();
  t.equal(opened.size.files, 1);
  t.equal(await readFile((await opened.hold(store.put('goes').file)).path, 'utf8'), 'goes');
});

t.test('an empty file is a file', async (t) => {
  const { store, cache } = await aCache(t);
  const held = await cache.hold(store.put('').file);
  t.equal(await readFile(held.path, 'utf8'), '');
});

t.test('a file whose bytes have changed is never handed out', async (t) => {
  const { store, cache, reopen } = await aCache(t);
  const { file } = store.put('right');
  const held = await cache.hold(file);
  held.release();
  const damage = async (text: string) => {
    await rm(held.path);
    await writeFile(held.path, text);
  };
  for (const text of ['wrong', 'longer than it should be', '']) {
    await damage(text);
    t.equal(await readFile((await cache.hold(file)).path, 'utf8'), 'right', text);
  }
  await damage('wrong');
  t.equal(await readFile((await (await reopen()).hold(file)).path, 'utf8'), 'right', 'at a start');
  t.equal(store.fetched.length, 5);
  await writeFile(held.path, 'wrong', { flag: 'r+' }).catch(() => t.pass('not the owner'));
  t.equal(await readFile((await cache.hold(file)).path, 'utf8'), 'right', 'written in place');
  await rm(held.path);
  t.equal(await readFile((await cache.hold(file)).path, 'utf8'), 'right', 'removed');
});

t.test('a file of any size is hashed at every hold', async (t) => {
  const { store, cache } = await aCache(t, 10 * 2 ** 20);
  for (const size of [1, 256 * 1024, 256 * 1024 + 1, 2 ** 20]) {
    const { file } = store.put(Buffer.alloc(size, `right ${size}`));
    const held = await cache.hold(file);
    held.release();
    const before = store.fetched.length;
    await damage(held.path, size - 1);
    const again = await cache.hold(file);
    t.equal(store.fetched.length, before + 1, `${size} bytes`);
    t.equal(sha256Of(await again.bytes()), file.sha256);
    t.equal(sha256Of(await readFile(again.path)), file.sha256);
    again.release();
    const unchanged = await cache.hold(file);
    t.equal(sha256Of(await unchanged.bytes()), file.sha256);
    t.equal(store.fetched.length, before + 1, 'and only a wrong one is fetched');
  }
});

t.test('bytes that are read were hashed', async (t) => {
  const { store, cache } = await aCache(t, 10 * 2 ** 20);
  const { file } = store.put(Buffer.alloc(2 ** 20, 'right'));
  (await cache.hold(file)).release();
  const held = await cache.hold(file);
  await damage(held.path, 7);
  await t.rejects(held.bytes(), /changed on disk while it was held/);
  held.release();
  t.equal(sha256Of(await (await cache.hold(file)).bytes()), file.sha256);
});

t.test('a name that is no file is replaced', async (t) => {
  const { folder, store, cache } = await aCache(t);
  const { file } = store.put('right');
  const elsewhere = join(folder, 'elsewhere');
  await writeFile(elsewhere, 'right');
  const held = await cache.hold(file);
  const makers: Record<string, () => unknown> = {
    link: () => symlink(elsewhere, held.path),
    folder: () => mkdir(held.path),
    FIFO: () => execFileSync('mkfifo', [held.path]),
  };
  for (const [name, make] of Object.entries(makers)) {
    await rm(held.path, { recursive: true });
    await make();
    const again = await cache.hold(file);
    t.ok((await lstat(again.path)).isFile(), name);
    t.equal(await readFile(again.path, 'utf8'), 'right');
  }
  t.equal(store.fetched.length, 1 + Object.keys(makers).length);
});

t.test('one test holds a content once, and lets it go', async (t) => {
  const { store, cache } = await aCache(t, 0);
  const content = store.put('both input and answer');
  const contents = new HeldContents(cache, new AbortController().signal);
  const [one, other] = await Promise.all([contents.forBox(content), contents.forBox(content)]);
  t.strictSame(one, other);
  t.equal(String(await contents.bytesOf(content)), 'both input and answer');
  t.equal(cache.size.files, 1, 'it stays while it is held');
  contents.release();
  await cache.settled();
  t.strictSame(cache.size, { files: 0, disk_bytes: 0 });
});

t.test('one that is cancelled does not wait for its content, and keeps none', async (t) => {
  const { store, cache } = await aCache(t, 0);
  const content = store.put('comes late');
  const cancelling = new AbortController();
  const contents = new HeldContents(cache, cancelling.signal);
  const path = contents.pathOf(content);
  cancelling.abort();
  await t.rejects(path, { name: 'SandboxFault', message: 'the run was cancelled' });
  contents.release();
  await (await cache.hold(content.file)).release();
  await cache.settled();
  t.strictSame(cache.size, { files: 0, disk_bytes: 0 });
});

t.test('what comes after the release is let go', async (t) => {
  const store = contentStore();
  const arrives = Promise.withResolvers<void>();
  const folder = await mkdtemp(join(tmpdir(), 'runledger-contents-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const bounds = { max_bytes: 0, max_entries: 10, others: [] };
  const slow = store.put('comes late');
  const cache = await openContentCache({
    ...{ folder, ...bounds },
    async *fetch(file) {
      if (file.sha256 === slow.file.sha256) await arrives.promise;
      yield* store.fetch(file);
    },
  });
  const contents = new HeldContents(cache, new AbortController().signal);
  const missing = { file: { sha256: '0'.repeat(64), size: 1 } };
  const late: Promise<unknown>[] = [contents.bytesOf(slow), contents.forBox(slow)];
  // As of the files of a checker, of which one cannot be fetched.
  await t.rejects(Promise.all([contents.bytesOf(missing), ...late]), /is not stored/);
  contents.release();
  arrives.resolve();
  for (const one of late) await t.rejects(one, /came after the release/);
  await cache.settled();
  t.strictSame(cache.size, { files: 0, disk_bytes: 0 });
  await t.rejects(contents.bytesOf(slow), /came after the release/, 'nor is it held again');
  await cache.settled();
  t.strictSame(await readdir(folder), []);
});

t.test('other bytes than those of the hash are an error, and nothing stays', async (t) => {
  const { folder, store, cache } = await aCache(t);
  const { file } = store.put('right');
  for (const text of ['wrong', 'right and more', 'righ', '']) {
    store.forge(file.sha256, text);
    await t.rejects(cache.hold(file), /came with other bytes/, text);
    t.strictSame(await readdir(folder), []);
  }
  t.strictSame(cache.size, { files: 0, disk_bytes: 0 });
  store.put('right');
  t.equal(
    await readFile((await cache.hold(file)).path, 'utf8'),
    'right',
    'the next run tries again',
  );
});

t.test('a failure is that of all that wait, and of no later one', async (t) => {
  const { folder, store, cache } = await aCache(t);
  const { file } = store.put('x');
  const missing = { ...file, sha256: '0'.repeat(64) };
  const both = await Promise.allSettled([cache.hold(missing), cache.hold(missing)]);
  t.strictSame(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  t.equal(store.fetched.length, 1);
  await t.rejects(cache.hold(missing), /is not stored/);
  t.strictSame(await readdir(folder), []);
});

t.test('a hash that is none names no path', async (t) => {
  const { cache } = await aCache(t);
  for (const sha256 of ['../../etc/passwd', '', 'A'.repeat(64), `${'0'.repeat(64)}/x`])
    await t.rejects(cache.hold({ sha256, size: 1 }), /is no SHA-256/);
});

t.test('the least recently used goes first, and what is held stays', async (t) => {
  const each = await smallFileBytes(t);
  const { folder, store, cache } = await aCache(t, 2.5 * each);
  const files = ['aaaa', 'bbbb', 'cccc', 'dddd'].map((text) => store.put(text).file);
  const [a, b, c, d] = files as [
    (typeof files)[0],
    (typeof files)[0],
    (typeof files)[0],
    (typeof files)[0],
  ];
  const left = async () => {
    await cache.settled();
    const names = await readdir(folder);
    return files.map(({ sha256 }) => names.includes(`content-${sha256}`));
  };
  (await cache.hold(a)).release();
  (await cache.hold(b)).release();
  (await cache.hold(a)).release();
  const held = await cache.hold(c);
  t.strictSame(await left(), [true, false, true, false], 'b was used before a');
  const more = await Promise.all([cache.hold(b), cache.hold(d)]);
  t.strictSame(await left(), [false, true, true, true], 'the bound gives way to what is held');
  t.equal(cache.size.files, 3);
  for (const one of [held, ...more]) one.release();
  held.release();
  t.equal(cache.size.files, 2);
  t.strictSame(await left(), [false, true, false, true]);
  const large = await cache.hold(store.put('e'.repeat(3 * each)).file);
  t.equal(
    (await readFile(large.path)).length,
    3 * each,
    'a file beyond the bound is there for its run',
  );
  large.release();
  await cache.settled();
  t.strictSame(await readdir(folder), []);
});

t.test('the bound in bytes counts what the disk loses', async (t) => {
  const max_bytes = 200_000;
  for (const size of [1, 10, 5_000]) {
    const { folder, store, cache, reopen } = await aCache(t, max_bytes);
    for (let n = 0; n < 100; n++) (await cache.hold(store.put(`${n}`.padEnd(size)).file)).release();
    await cache.settled();
    const names = await readdir(folder);
    const states = await Promise.all(names.map((name) => lstat(join(folder, name))));
    const lost = states.reduce((sum, { blocks }) => sum + blocks * 512, 0);
    t.ok(lost <= max_bytes, `${size} bytes each: ${lost} of ${max_bytes} on disk`);
    t.ok(cache.size.disk_bytes > lost, 'an inode counts, too');
    t.ok(cache.size.disk_bytes <= max_bytes);
    t.strictSame((await reopen()).size, cache.size, 'and a restart counts the same');
  }
});

t.test('the bound in files holds, also after a restart', async (t) => {
  const { folder, store, cache } = await aCache(t, 2 ** 30, 20);
  const files = Array.from({ length: 50 }, (_, n) => store.put(`${n}`).file);
  const all = await Promise.all(files.map((file) => cache.hold(file)));
  t.equal(cache.size.files, 50, 'it gives way to what is held');
  for (const one of all) one.release();
  await cache.settled();
  t.equal((await readdir(folder)).length, 20);
  const bounds = { max_bytes: 2 ** 30, max_entries: 5, others: [] };
  const fewer = await openContentCache({ folder, ...bounds, fetch: store.fetch });
  t.equal((await readdir(folder)).length, 5);
  t.equal(fewer.size.files, 5);
});

t.test('a start asks for the state of some files at a time', async (t) => {
  const { store, cache, reopen } = await aCache(t, 2 ** 30, 1_000);
  for (let n = 0; n < 600; n++) (await cache.hold(store.put(`${n}`).file)).release();
  const { lstat } = fs;
  const restore = () => {
    fs.lstat = lstat;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  let asked = 0;
  let most = 0;
  fs.lstat = (async (path: string) => {
    most = Math.max(most, ++asked);
    return lstat(path).finally(() => asked--);
  }) as typeof lstat;
  syncBuiltinESMExports();
  const opened = await reopen();
  restore();
  t.equal(opened.size.files, 600);
  t.ok(most > 1 && most <= 256, `${most} at a time`);
});

/** From now on the folder is on a disk that has room for so many bytes of files. */
function onSmallDisk(t: Test, folder: string, room: { bytes: number }): void {
  const { open } = fs;
  fs.open = (async (path: string, ...more: []) => {
    const handle = await open(path, ...more);
    const { writeFile } = handle;
    handle.writeFile = async (piece: Uint8Array) => {
      const names = await readdir(folder);
      const sizeOf = (name: string) =>
        lstat(join(folder, name)).then(
          ({ size }) => size,
          // It was removed in between.
          () => 0,
        );
      const sizes = await Promise.all(names.map(sizeOf));
      const used = sizes.reduce((sum, size) => sum + size, 0);
      if (used + piece.length > room.bytes)
        throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
      await writeFile.call(handle, piece);
    };
    return handle;
  }) as typeof open;
  syncBuiltinESMExports();
  t.teardown(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
}

t.test('on a full disk a file gets the room of those that no run holds', async (t) => {
  const { folder, store, cache } = await aCache(t);
  onSmallDisk(t, folder, { bytes: 250 });
  const [held, unused, needed] = ['held', 'unused', 'needed'].map(
    (text) => store.put(text.padEnd(100)).file,
  );
  const kept = await cache.hold(held!);
  (await cache.hold(unused!)).release();
  const got = await cache.hold(needed!);
  t.equal((await readFile(got.path, 'utf8')).trim(), 'needed');
  t.strictSame(
    new Set(await readdir(folder)),
    new Set([kept.key, got.key]),
    'what is held stays, and no half of a file is left',
  );
  t.equal(cache.size.files, 2);
  await t.rejects(cache.hold(unused!), { code: 'ENOSPC' }, 'nothing is left to remove');
  t.equal((await readdir(folder)).length, 2);
  got.release();
  t.equal((await readFile((await cache.hold(unused!)).path, 'utf8')).trim(), 'unused');
});

t.test('on a full disk a file gets the room of the compiled programs', async (t) => {
  const { folder, store } = await aCache(t);
  const room = { bytes: 50 };
  onSmallDisk(t, folder, room);
  const programs = {
    async makeRoom() {
      room.bytes = 150;
      return true;
    },
  };
  const bounds = { max_bytes: 2 ** 20, max_entries: 10, others: [programs] };
  const cache = await openContentCache({ folder, ...bounds, fetch: store.fetch });
  const got = await cache.hold(store.put('needed'.padEnd(100)).file);
  t.equal((await readFile(got.path, 'utf8')).trim(), 'needed');
});

t.test('of several files that meet a full disk, each is tried again', async (t) => {
  const { folder, store, cache } = await aCache(t);
  onSmallDisk(t, folder, { bytes: 250 });
  (await cache.hold(store.put('unused'.padEnd(200)).file)).release();
  const needed = ['a', 'b'].map((text) => store.put(text.padEnd(100)).file);
  const got = await Promise.all(needed.map((file) => cache.hold(file)));
  t.strictSame(new Set(await readdir(folder)), new Set(got.map(({ key }) => key)));
});

t.test('a start keeps the order of use, and removes what is old or unfinished', async (t) => {
  const { folder, store, cache, reopen } = await aCache(t, 2 ** 20, 2);
  const [a, b] = [store.put('aaaa').file, store.put('bbbb').file];
  for (const file of [a, b]) (await cache.hold(file)).release();
  const age = (file: string, ms: number) => {
    const at_s = (Date.now() - ms) / 1000;
    return utimes(join(folder, file), at_s, at_s);
  };
  await age(`content-${a.sha256}`, 60_000);
  const halves = ['young', 'old'].map((name) => `content-${a.sha256}.${name}`);
  for (const half of halves) await writeFile(join(folder, half), 'half');
  await age(halves[1]!, 2 * 60 * 60 * 1000);
  await writeFile(join(folder, 'another'), 'not ours');
  const second = await reopen();
  t.strictSame((await readdir(folder)).length, 4, 'all but the old half');
  (await second.hold(store.put('cccc').file)).release();
  await second.settled();
  t.notOk((await readdir(folder)).includes(`content-${a.sha256}`), 'a was used before b');
  await age(`content-${b.sha256}`, 8 * 24 * 60 * 60 * 1000);
  await reopen();
  t.notOk((await readdir(folder)).includes(`content-${b.sha256}`), 'unused for a week');
});

t.test('a use is remembered over a restart', async (t) => {
  const { folder, store } = await aCache(t);
  const { file } = store.put('x');
  let now = Date.now();
  const bounds = { max_bytes: 2 ** 20, max_entries: 10, others: [] };
  const cache = new ContentCache({ folder, ...bounds, fetch: store.fetch, now: () => now });
  const held = await cache.hold(file);
  const before = await lstat(held.path);
  now += 60 * 60 * 1000;
  (await cache.hold(file)).release();
  t.ok((await lstat(held.path)).mtimeMs > before.mtimeMs);
  (await cache.hold(file)).release();
  t.equal(store.fetched.length, 1, 'and the mark is no change of the file');
});

t.test('a worker that is killed while it fetches leaves no file under its name', async (t) => {
  const { folder, store, reopen } = await aCache(t);
  const { file } = store.put('the whole content');
  const child = fork(join(import.meta.dirname, 'content_cache_process.ts'), [
    folder,
    JSON.stringify(file),
  ]);
  await once(child, 'message');
  child.kill('SIGKILL');
  await once(child, 'exit');
  const names = await readdir(folder);
  t.equal(names.length, 1);
  t.not(names[0], `content-${file.sha256}`);
  const held = await (await reopen()).hold(file);
  t.equal(await readFile(held.path, 'utf8'), 'the whole content');
});
