/** What a witness keeps, and what it does with files that are damaged, torn or another's. */
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
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { cosignedNote } from '../../src/proof/addition.ts';
import { parseNote, signatureBy } from '../../src/proof/note.ts';
import { WitnessFolder } from '../../src/witness/witness_folder.ts';
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
