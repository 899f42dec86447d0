/**
 * `make bench-pair [BASE=HEAD~1] [ROUNDS=4] [FLOOR=0.97] [ONLY=text of the names of rows]`: is a submission as fast as before?
 *
 * The services of both revisions run at the same time, and requests go to them in turn. So both see the same machine within
 * milliseconds, and the ratios repeat within a few percent where its speed changes by a third from one minute to the next,
 * which bench-compare cannot tell from a change of the code. Every round starts both services again, in the other order.
 *
 * Exit status: 0 when no row is below FLOOR, 1 when one is, 2 when there is no comparison.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { cpuOfTree } from '../../test/support/processes.ts';
import { ENVIRONMENT, numberOf, TREE, withBase } from './base_tree.ts';
import type { Runs } from './pair_host.ts';
import { figure, printTable } from './report.ts';
import { median } from './stats.ts';

const BASE = process.env['BASE'] || 'HEAD~1';
const ROUNDS = numberOf('bench-pair', 'ROUNDS', 4);
const FLOOR = numberOf('bench-pair', 'FLOOR', 0.97);
const ONLY = process.env['ONLY'] ?? '';
/** Precompiled headers and warm processes are there when both services have used less of a processor than this for so long. */
const QUIET = { share: 0.1, for_ms: 4_000 };
const SETTLE_MOST_MS = 120_000;

/** `turns`: how often each side gets `count` runs. */
const CASES = (
  [
    { name: 'Python', what: 'Python', count: 1, at_once: 1, turns: 250 },
    { name: 'C++ seen', what: 'C++, compiled before', count: 1, at_once: 1, turns: 250 },
    { name: 'C++ never seen', what: 'C++, never seen', count: 1, at_once: 1, turns: 40 },
    { name: 'Java seen', what: 'Java, compiled before', count: 1, at_once: 1, turns: 60 },
    { name: 'Java never seen', what: 'Java, never seen', count: 1, at_once: 1, turns: 60 },
    { name: 'C++ of 70 lines', what: 'C++ of 70 lines', count: 1, at_once: 1, turns: 8 },
    { name: 'Java of 100 lines', what: 'Java of 100 lines', count: 1, at_once: 1, turns: 20 },
    { name: 'C++ of 70 lines, 4 at once', what: 'C++ of 70 lines', count: 4, at_once: 4, turns: 4 },
    { name: 'Python, 16 at once', what: 'Python', count: 48, at_once: 16, turns: 40 },
    {
      name: 'C++ seen, 16 at once',
      what: 'C++, compiled before',
      count: 48,
      at_once: 16,
      turns: 40,
    },
    { name: 'submission', what: 'submission', count: 20, at_once: 1, turns: 100 },
    { name: 'submission, 8 at once', what: 'submission', count: 80, at_once: 8, turns: 60 },
    { name: 'submission, 64 at once', what: 'submission', count: 640, at_once: 64, turns: 20 },
    { name: 'empty execution', what: 'empty execution', count: 20, at_once: 1, turns: 60 },
    { name: 'empty, 8 at once', what: 'empty execution', count: 80, at_once: 8, turns: 40 },
    { name: 'empty, 64 at once', what: 'empty execution', count: 640, at_once: 64, turns: 15 },
  ] as const satisfies readonly (Runs & { turns: number; name: string })[]
).filter(({ name }) => name.includes(ONLY));

if (CASES.length === 0) {
  console.error(`bench-pair: no row has '${ONLY}' in its name`);
  process.exit(2);
}

type Host = { pid: number; ask(runs: Runs): Promise<number[]>; stop(): Promise<void> };

async function startHost(root: string): Promise<Host> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'pair_host.ts'), [root], {
    cwd: root,
    env: ENVIRONMENT,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit');
  const answer = async () => {
    const ended = gone.then(([code]) => {
      throw new Error(`the service of ${root} ended with ${code}`);
    });
    const [message] = await Promise.race([once(child, 'message'), ended]);
    return message;
  };
  await answer();
  return {
    pid: child.pid!,
    ask(runs) {
      const answered = answer();
      child.send(runs);
      return answered;
    },
    async stop() {
      if (child.connected) child.send('stop');
      await gone;
    },
  };
}

type Sides<T> = { before: T; after: T };

await withBase('bench-pair', BASE, async (base, commit) => {
  const rows = CASES.map(({ name }) => ({ name, ms: [] as Sides<number>[] }));
  for (let round = 0; round < ROUNDS; round++) {
    const roots = { before: base, after: TREE };
    const order = round % 2 === 0 ? (['before', 'after'] as const) : (['after', 'before'] as const);
    const hosts = {} as Sides<Host>;
    try {
      for (const side of order) hosts[side] = await startHost(roots[side]);
      await settled([hosts.before.pid, hosts.after.pid]);
      for (const [n, { turns, ...runs }] of CASES.entries()) {
        const { before, after } = await inTurns(hosts, runs, turns);
        rows[n]!.ms.push({ before: median(before), after: median(after) });
      }
    } finally {
      await Promise.all(Object.values(hosts).map((host) => host.stop()));
    }
    console.error(`round ${round + 1} of ${ROUNDS}`);
  }
  print(rows, commit);
});

async function settled(roots: readonly number[]): Promise<void> {
  const used_ms = () => roots.reduce((sum, root) => sum + cpuOfTree(root), 0) * 1000;
  for (const began = performance.now(); performance.now() - began < SETTLE_MOST_MS; ) {
    const before = used_ms();
    await wait(QUIET.for_ms);
    if (used_ms() - before < QUIET.share * QUIET.for_ms) return;
  }
  throw new Error(`the services were not quiet within ${SETTLE_MOST_MS / 1000} s`);
}

async function inTurns(hosts: Sides<Host>, runs: Runs, turns: number): Promise<Sides<number[]>> {
  const ms: Sides<number[]> = { before: [], after: [] };
  for (const side of ['before', 'after'] as const)
    await hosts[side].ask({ ...runs, count: Math.min(40, turns * runs.count) });
  for (let turn = 0; turn < turns; turn++)
    for (const side of turn % 2 === 0
      ? (['before', 'after'] as const)
      : (['after', 'before'] as const))
      ms[side].push(...(await hosts[side].ask(runs)));
  return ms;
}

function print(rows: readonly { name: string; ms: Sides<number>[] }[], commit: string): void {
  console.log(
    `\nbefore: ${BASE} (${commit.slice(0, 12)}), after: this working tree, in turns; ${ROUNDS} rounds.` +
      '\nms: the median of the rounds. Speed: of after, with 1 for before; the mean of the rounds.',
  );
  const judged = rows.map(({ name, ms }) => {
    const speeds = ms.map(({ before, after }) => before / after);
    const speed = Math.exp(speeds.reduce((sum, each) => sum + Math.log(each), 0) / speeds.length);
    return { name, ms, speeds, speed };
  });
  printTable(
    ['', 'before', 'after', 'speed', 'of the rounds', 'result'],
    judged.map(({ name, ms, speeds, speed }) => [
      name,
      ...(['before', 'after'] as const).map((side) => figure(median(ms.map((each) => each[side])))),
      speed.toFixed(3),
      `${Math.min(...speeds).toFixed(2)} to ${Math.max(...speeds).toFixed(2)}`,
      speed < FLOOR ? 'BELOW' : 'ok',
    ]),
  );
  const below = judged.filter(({ speed }) => speed < FLOOR).length;
  console.log(`${below} of ${judged.length} rows are below ${FLOOR}`);
  if (below > 0) process.exitCode = 1;
}
