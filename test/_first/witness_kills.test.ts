/**
 * A witness that is killed at any moment never cosigns two trees that disagree.
 *
 * Each log has forked: two trees have the same leaves up to a size, and others after it. Both are offered at the same time
 * while the witness is killed with SIGKILL and started again on its folder. Of each log every cosignature that any client
 * ever received must be of one of the trees. A log decides once which of its trees it is, so new logs come with each kill,
 * and the older ones are offered the other tree again.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { cosignedNote, parseSize } from '../../src/proof/addition.ts';
import { keyText, parseNote, type VerifierKey } from '../../src/proof/note.ts';
import { WitnessFolder } from '../../src/witness/witness_folder.ts';
import { type Dice, dice } from '../simulation/dice.ts';
import { spawnBound } from '../support/spawn_bound.ts';
import { add, temporaryFolder } from '../witness/a_witness.ts';
import { type TestLog, testLog } from '../witness/log_for_tests.ts';

const KILLS = 120;
/** Witnesses at a time, each with a folder and logs of its own. */
const LANES = 4;
/** Logs that appear with each kill. */
const NEW_LOGS = 2;
const FORK_AT = 3;
const LEAVES = 12;
const SEED = Number(process.env['RUNLEDGER_TEST_SEED'] ?? 1);

type Forked = { readonly origin: string; readonly trees: readonly [TestLog, TestLog] };
type Received = { readonly log: Forked; readonly size: number; readonly tree: TestLog };

t.test(`${KILLS} kills, seed ${SEED}`, async (t) => {
  const lanes = await Promise.all(Array.from({ length: LANES }, (_, n) => runLane(t, n)));
  t.equal(
    lanes.reduce((sum, { kills }) => sum + kills, 0),
    KILLS,
  );
  for (const { received, dir, key, logs } of lanes) {
    for (const log of logs) {
      const own = received.filter((each) => each.log === log);
      const disagreeing = log.trees.every((tree) => own.some((each) => !isOf(tree, each)));
      t.notOk(disagreeing, `${log.origin}: ${own.map(({ size }) => size)}`);
    }
    await checkFolder(t, dir, key, logs, received);
  }
  // Without these, the test would prove nothing.
  const decided = lanes.flatMap(({ logs, received }) => logs.map((log) => winner(log, received)));
  for (const n of [0, 1])
    t.ok(decided.filter((each) => each === n).length > KILLS / 20, `tree ${n} has won sometimes`);
  t.comment(
    `${lanes.flatMap(({ received }) => received).length} cosignatures, ` +
      `${decided.filter((each) => each !== null).length} of ${decided.length} logs decided`,
  );
});

const isOf = (tree: TestLog, { size, tree: own }: Received) =>
  tree.root(size).equals(own.root(size));

function winner(log: Forked, received: readonly Received[]): number | null {
  const past = received.find((each) => each.log === log && each.size > FORK_AT);
  return past ? log.trees.indexOf(past.tree) : null;
}

/** The file of each log is not behind any cosignature that was received. */
async function checkFolder(
  t: Test,
  dir: string,
  key: VerifierKey,
  logs: readonly Forked[],
  received: readonly Received[],
): Promise<void> {
  const folder = await WitnessFolder.open(dir, key.name);
  for (const log of logs) {
    const last = await folder.last(log.origin);
    const own = received.filter((each) => each.log === log);
    const largest = Math.max(0, ...own.map(({ size }) => size));
    t.ok(last.size >= largest, `${log.origin}: ${last.size} is kept, ${largest} was cosigned`);
  }
  folder.close();
}

async function runLane(t: Test, lane: number) {
  const random = dice(SEED).fork(`lane ${lane}`);
  const dir = await temporaryFolder(t);
  const kills = KILLS / LANES;
  const logs = Array.from({ length: kills * NEW_LOGS }, (_, n) => forked(`log.test/${lane}/${n}`));
  const keys = join(dir, 'keys.txt');
  await writeFile(keys, logs.map((log) => `${keyText(log.trees[0].signer.verifier)}\n`).join(''));
  const received: Received[] = [];
  const folder = await WitnessFolder.open(dir, 'witness.test');
  const key = folder.signer.verifier;
  folder.close();
  for (let kill = 0; kill < kills; kill++) {
    const seen = logs.slice(0, (kill + 1) * NEW_LOGS);
    const offered = [...seen.slice(-NEW_LOGS), random.pick(seen)];
    const child = startWitnessProcess(t, dir, keys);
    // One in eight is killed while it starts.
    if (random.whole(1, 8) === 1) setTimeout(() => child.kill('SIGKILL'), random.whole(0, 200));
    const url = await Promise.race([
      once(createInterface({ input: child.stdout! }), 'line').then(([line]) => String(line)),
      once(child, 'exit').then(() => null),
    ]);
    if (!url) t.equal(child.signalCode, 'SIGKILL', 'it ended only because it was killed');
    if (url) {
      const ended = once(child, 'exit');
      // So many answers later, and a moment: while some request is anywhere on its way.
      let answers = random.whole(1, 24);
      const moment_ms = random.next() * 4;
      const onAnswer = () => {
        answers -= 1;
        if (answers === 0) setTimeout(() => child.kill('SIGKILL'), moment_ms);
      };
      const offers = offered.flatMap((log) =>
        inAnyOrder(random, log.trees).map((tree) =>
          offer({ url, log, tree, key, received, onAnswer }),
        ),
      );
      await Promise.all([...offers, ended]);
    }
  }
  return { received, dir, key, logs, kills };
}

/** The tree that is offered first mostly wins. */
const inAnyOrder = <T>(random: Dice, items: readonly T[]) =>
  random.next() < 0.5 ? items : items.toReversed();

function forked(origin: string): Forked {
  const branch = { from: FORK_AT, name: 'other ' };
  return { origin, trees: [testLog(origin, LEAVES), testLog(origin, LEAVES, { branch })] };
}

function startWitnessProcess(t: Test, dir: string, keys: string): ChildProcess {
  const program = join(import.meta.dirname, '../witness/witness_process.ts');
  const child = spawnBound(process.execPath, [program, dir, keys], {
    stdio: ['ignore', 'pipe', 'inherit'],
    // A start costs less when the code was compiled before.
    env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: join(dir, 'compiled') },
  });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

/** Offers one tree in growing sizes, following the sizes that the witness answers, until the witness is gone. */
async function offer(given: {
  url: string;
  log: Forked;
  tree: TestLog;
  key: VerifierKey;
  received: Received[];
  onAnswer: () => void;
}): Promise<void> {
  const { url, log, tree, key, received, onAnswer } = given;
  let old = 0;
  try {
    for (let size = 1; ; size = Math.min(Math.max(size, old) + 1, LEAVES)) {
      const answer = await add(url, tree.addition(old, size));
      onAnswer();
      if (answer.status === 200) {
        if (!cosignedNote(parseNote(tree.note(size)).text, answer.body, key))
          throw new RangeError(`no cosignature: ${answer.body}`);
        received.push({ log, size, tree });
        old = size;
      } else if (answer.status === 409) old = parseSize(answer.body)!;
    }
  } catch (error) {
    // The end of the witness, at whatever byte.
    if (!(error instanceof TypeError)) throw error;
  }
}
