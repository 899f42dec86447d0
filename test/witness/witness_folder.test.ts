/** What a witness keeps, and what it does with files that are damaged, torn or another's. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import {
  chmod,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { cosignedNote } from '../../src/proof/addition.ts';
import { parseNote, signatureBy } from '../../src/proof/note.ts';
import { WitnessFolder } from '../../src/witness/witness_folder.ts';
import { wire } from '../http/support/call.ts';
import { spawnBound } from '../support/spawn_bound.ts';
import { aWitness, temporaryFolder } from './a_witness.ts';
import { testLog } from './log_for_tests.ts';

const log = testLog('log.test/one', 600);
const second = testLog('log.test/two', 600);
const logs = [log.signer.verifier, second.signer.verifier];

const notes = async (dir: string) =>
  (await readdir(dir)).filter((file) => file.endsWith('.checkpoint'));

t.test('the key and the notes outlive a stop, and only their owner can read them', async (t) => {
  const dir = await temporaryFolder(t);
  const first = await aWitness(t, logs, { dir, name: 'w.test/1' });
  t.equal((await first.add(log.addition(0, 300))).status, 200);
  await first.stop();
  const again = await aWitness(t, logs, { dir, name: 'w.test/1' });
  t.same(again.key, first.key);
  t.match(await again.add(log.addition(0, 400)), { status: 409, body: '300\n' });
  const answer = await again.add(log.addition(300, 400));
  t.ok(cosignedNote(parseNote(log.note(400)).text, answer.body, first.key));
  for (const file of ['key', ...(await notes(dir))])
    t.equal((await stat(join(dir, file))).mode & 0o777, 0o600, file);
});

t.test(
  'the file of an origin is its note, with the signature of the log and of the witness',
  async (t) => {
    const dir = await temporaryFolder(t);
    const witness = await aWitness(t, logs, { dir });
    await witness.add(log.addition(0, 300));
    const [file] = await notes(dir);
    const note = parseNote(await readFile(join(dir, file!), 'utf8'));
    t.equal(note.text, parseNote(log.note(300)).text);
    t.ok(signatureBy(note, log.signer.verifier));
    t.ok(signatureBy(note, witness.key));
  },
);

t.test('a note is on disk, under its name, before the cosignature is sent', async (t) => {
  const dir = await realpath(await temporaryFolder(t));
  const witness = await aWitness(t, logs, { dir });
  const handle = await open(dir);
  const handles: FileHandle = Object.getPrototypeOf(handle);
  await handle.close();
  const { sync } = handles;
  const synced: object[] = [];
  let answered = false;
  t.intercept(handles, 'sync', {
    async value(this: FileHandle) {
      const path = await readlink(`/proc/self/fd/${this.fd}`);
      const written = path === dir ? null : await readFile(path, 'utf8');
      await sync.call(this);
      await pause(100);
      synced.push({ path, written, notes: await notes(dir), answered });
    },
  });
  const answer = await witness.add(log.addition(0, 300));
  answered = true;
  t.equal(answer.status, 200);
  // What is written behind the answer is seen, too.
  await pause(200);
  const [file] = await notes(dir);
  const path = join(dir, file!);
  t.same(synced, [
    { path: `${path}.new`, written: await readFile(path, 'utf8'), notes: [], answered: false },
    { path: dir, written: null, notes: [file], answered: false },
  ]);
});

const post = (body: string) =>
  `POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** What each flush of a file waits for first. Returns the numbers of the flushes that have begun. */
async function flushes(
  t: Pick<Test, 'intercept'>,
  dir: string,
  before: (path: string) => Promise<void> | void,
): Promise<() => number> {
  const handle = await open(dir);
  const handles: FileHandle = Object.getPrototypeOf(handle);
  await handle.close();
  const { sync } = handles;
  let begun = 0;
  t.intercept(handles, 'sync', {
    async value(this: FileHandle) {
      begun += 1;
      await before(await readlink(`/proc/self/fd/${this.fd}`));
      await sync.call(this);
    },
  });
  return () => begun;
}

t.test('a tree that this process has stored is signed again without a write', async (t) => {
  const dir = await realpath(await temporaryFolder(t));
  let fails = false;
  const begun = await flushes(t, dir, (path) => {
    if (fails && path === dir) throw new Error('the disk is away');
  });
  const witness = await aWitness(t, logs, { dir });
  const { text } = parseNote(log.note(300));
  const again = async (of = witness) => {
    const answer = await of.add(log.addition(300, 300));
    t.ok(answer.status !== 200 || cosignedNote(text, answer.body, of.key), 'it is a cosignature');
    return answer.status;
  };
  fails = true;
  t.equal((await witness.add(log.addition(0, 300))).status, 500);
  t.equal((await notes(dir)).length, 1, 'its name was seen, and may not be on disk');
  t.equal(await again(), 500);
  fails = false;
  const failed = begun();
  t.equal(await again(), 200);
  t.equal(begun(), failed + 2, 'it is on disk now');
  for (let n = 0; n < 5; n++) t.equal(await again(), 200);
  t.equal(begun(), failed + 2, 'and is not written again');
  t.equal((await witness.add(log.addition(300, 400))).status, 200);
  t.equal(begun(), failed + 4, 'another tree is');
  await witness.stop();
  const later = await aWitness(t, logs, { dir });
  for (let n = 0; n < 2; n++)
    t.equal((await later.add(log.addition(400, 400))).status, 200, 'after a restart');
  t.equal(begun(), failed + 6, 'another process does not know how the write ended');
});

t.test('nothing is signed where the folder lost what this process has stored', async (t) => {
  const dir = await temporaryFolder(t);
  const witness = await aWitness(t, logs, { dir });
  t.equal((await witness.add(log.addition(0, 300))).status, 200);
  const [file] = await notes(dir);
  const before = await readFile(join(dir, file!));
  t.equal((await witness.add(log.addition(300, 400))).status, 200);
  const after = await readFile(join(dir, file!));
  for (const is_gone of [true, false]) {
    await (is_gone ? rm(join(dir, file!)) : writeFile(join(dir, file!), before));
    for (const [old, size] of [
      [0, 400],
      [300, 400],
      [400, 400],
      [300, 500],
    ] as const)
      t.equal((await witness.add(log.addition(old, size))).status, 500);
  }
  await writeFile(join(dir, file!), after);
  t.equal((await witness.add(log.addition(400, 500))).status, 200, 'it has it again');
});

t.test('a request that is gone loses its turn', async (t) => {
  const dir = await realpath(await temporaryFolder(t));
  const [entered, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const witness = await aWitness(t, logs, { dir });
  await flushes(t, dir, () => {
    entered.resolve();
    return go.promise;
  });
  const first = witness.add(log.addition(0, 300));
  await entered.promise;
  const closed = Promise.withResolvers<void>();
  const see = (seen: unknown) => {
    const { request, socket } = seen as { request: { url: string }; socket: Socket };
    if (request.url === '/add-checkpoint') socket.once('close', () => closed.resolve());
  };
  subscribe('http.server.request.start', see);
  t.teardown(() => unsubscribe('http.server.request.start', see));
  const gone = wire(Number(new URL(witness.url).port));
  gone.send(post(log.addition(300, 400)));
  gone.socket.end();
  await closed.promise;
  go.resolve();
  t.equal((await first).status, 200);
  t.match(
    await witness.add(log.addition(300, 350)),
    { status: 200 },
    'the tree of 400 was not cosigned',
  );
});

t.test('a connection has one request in line', async (t) => {
  const witness = await aWitness(t, logs);
  const port = Number(new URL(witness.url).port);
  const two = wire(port);
  two.send(post(log.addition(0, 300)).repeat(2));
  const text = await two.until(/HTTP.*HTTP\/1\.1 \d+/s);
  t.same(
    [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => status),
    ['200', '503'],
  );
  const one = wire(port);
  for (let n = 1; n <= 2; n++) {
    one.send(post(log.addition(300, 300)));
    const got = await one.until(new RegExp(`(HTTP/1\\.1 [^]*?witness\\.test .+\\n){${n}}`));
    t.notMatch(got, /503/, 'the next one after the answer is welcome');
  }
  one.socket.destroy();
});

t.test('a folder has one witness at a time', async (t) => {
  const dir = await temporaryFolder(t);
  const first = await aWitness(t, logs, { dir });
  await t.rejects(WitnessFolder.open(dir, null), /cannot be locked .*stop the witness/);
  t.equal((await first.add(log.addition(0, 9))).status, 200, 'the first one goes on');
  await first.stop();
  (await WitnessFolder.open(dir, null)).close();
});

t.test('of two processes that start on a folder one gets it, and its end frees it', async (t) => {
  const dir = await temporaryFolder(t);
  const start = () =>
    spawnBound(process.execPath, [join(import.meta.dirname, 'witness_process.ts'), dir, 'none'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const pair = [start(), start()];
  t.teardown(() => pair.map((each) => each.kill('SIGKILL')));
  const outcome = (child: (typeof pair)[number]) =>
    Promise.race([
      once(child.stdout!, 'data').then(() => 'runs'),
      once(child, 'exit').then(([code]) => `ended ${code}`),
    ]);
  const outcomes = await Promise.all(pair.map(outcome));
  t.same(outcomes.toSorted(), ['ended 1', 'runs']);
  const running = pair[outcomes.indexOf('runs')]!;
  running.kill('SIGKILL');
  await once(running, 'exit');
  (await WitnessFolder.open(dir, null)).close();
});

t.test(
  'a note that is torn, empty, altered or missing its cosignature stops the witness',
  async (t) => {
    const dir = await temporaryFolder(t);
    const witness = await aWitness(t, logs, { dir });
    await witness.add(log.addition(0, 300));
    await witness.add(second.addition(0, 300));
    const [file, other] = await notes(dir);
    const path = join(dir, file!);
    const whole = await readFile(path, 'utf8');
    const lines = whole.split('\n');
    const damaged: Record<string, string> = {
      empty: '',
      'half of it': whole.slice(0, whole.length / 2),
      'without its last byte': whole.slice(0, -1),
      'zeroes, as after a power cut': '\0'.repeat(whole.length),
      'another size': whole.replace('\n300\n', '\n200\n'),
      'without the cosignature': [...lines.slice(0, -2), ''].join('\n'),
      'no note': 'hello\n',
    };
    const [mine, others] = [log, second].toSorted((a) =>
      whole.startsWith(`${a.origin}\n`) ? -1 : 1,
    );
    for (const [name, text] of Object.entries(damaged)) {
      await writeFile(path, text);
      t.match(await witness.add(mine!.addition(0, 400)), { status: 500 }, `${name}: no answer`);
      t.match(await witness.add(mine!.addition(300, 400)), { status: 500 }, `${name}: no answer`);
    }
    t.match(
      await witness.add(others!.addition(300, 400)),
      { status: 200 },
      'another origin goes on',
    );
    await witness.stop();
    for (const [name, text] of Object.entries(damaged)) {
      await writeFile(path, text);
      await t.rejects(
        WitnessFolder.open(dir, null),
        /is damaged, or another witness wrote it/,
        name,
      );
    }
    await writeFile(path, await readFile(join(dir, other!)));
    const swapped = await aWitness(t, logs, { dir });
    t.match(await swapped.add(mine!.addition(0, 9)), { status: 500 }, 'the file of another origin');
    await swapped.stop();
    await writeFile(path, whole);
    const restored = await aWitness(t, logs, { dir });
    t.match(await restored.add(mine!.addition(300, 400)), { status: 200 });
  },
);

t.test('a file that a kill left half written is not read', async (t) => {
  const dir = await temporaryFolder(t);
  const witness = await aWitness(t, logs, { dir });
  await witness.add(log.addition(0, 300));
  await witness.stop();
  const [file] = await notes(dir);
  await writeFile(join(dir, `${file}.new`), 'half a no');
  const again = await aWitness(t, logs, { dir });
  t.match(await again.add(log.addition(300, 400)), { status: 200 });
  await again.stop();
  await writeFile(join(dir, 'key.new'), 'half a k');
  (await WitnessFolder.open(dir, null)).close();
});

t.test('a note that cannot be stored gets no cosignature', async (t) => {
  const dir = await temporaryFolder(t);
  const witness = await aWitness(t, logs, { dir });
  await witness.add(log.addition(0, 300));
  const [file] = await notes(dir);
  await mkdir(join(dir, `${file}.new`));
  const answer = await witness.add(log.addition(300, 400));
  t.equal(answer.status, 500);
  t.notMatch(answer.body, /—/);
  await rm(join(dir, `${file}.new`), { recursive: true });
  t.match(await witness.add(log.addition(300, 400)), { status: 200 });
});

t.test('a key of another name, no name, and a damaged key', async (t) => {
  const dir = await temporaryFolder(t);
  await t.rejects(WitnessFolder.open(dir, null), /the first start needs a name/);
  for (const name of ['', 'a b', 'a+b', 'a\nb'])
    await t.rejects(WitnessFolder.open(dir, name), /the first start needs a name/, name);
  (await WitnessFolder.open(dir, 'one.test')).close();
  await t.rejects(WitnessFolder.open(dir, 'two.test'), /has the name one\.test, not two\.test/);
  await truncate(join(dir, 'key'), 20);
  await t.rejects(WitnessFolder.open(dir, 'one.test'), /key is damaged/);
  await chmod(dir, 0o700);
});
