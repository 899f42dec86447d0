/**
 * The launcher supervises every slot in one loop, so a program that stops it stops the clocks of all. The
 * evidence is the state that the kernel reports for the launcher while a hostile program runs: a process
 * that waits for a lock is "D", one that waits for events "S". A busy machine changes neither. And what
 * the launcher spends is compared with the run's wall time.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { CASES } from './cases/all.ts';
import { erred, READER } from './pair_programs.ts';
import { openBench, requestFor } from './suite.ts';

/** A launcher that waits for the program does so nearly always. A new slot's or run's group is a moment. */
const WAITING_PART = 0.1;
const LAUNCHER_PART = 0.1;
/** More than a run takes, unless the launcher cannot end it. */
const SAMPLES_MOST = 5_000;
const NAMES = [
  'memory that is being changed while the service answers',
  'a pipe whose lock is held',
  'waiters on the output pipe',
];

const bench = await openBench(['cpp', 'python']);
t.teardown(() => bench.close());
const { pid, degraded } = bench.many.isolation;

function state(): string {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0] ?? '?';
}
function spentUs(): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1_000;
}

t.test('the launcher has no epoll, whose watches programs of the same user could use up', (t) => {
  const folder = `/proc/${pid}/fd`;
  const kinds = readdirSync(folder).map((number) => readlinkSync(`${folder}/${number}`));
  t.ok(kinds.includes('anon_inode:[signalfd]'), 'these are its descriptors');
  t.notOk(kinds.includes('anon_inode:[eventpoll]'));
  t.end();
});

for (const name of NAMES) {
  t.test(name, { skip: degraded && 'degraded isolation' }, async (t) => {
    const { hostile, topic } = CASES.find((each) => each.name === name)!;
    const { request } = requestFor(bench, hostile, topic, 'cpp');
    const before_us = spentUs();
    const run = bench.many.run(request);
    let ended = false;
    run.finally(() => (ended = true)).catch(() => {});
    let samples = 0;
    let waiting = 0;
    for (; !ended && samples < SAMPLES_MOST; samples++) {
      if (state() === 'D') waiting++;
      await sleep(2);
    }
    t.ok(samples > 50, `${samples} samples`);
    t.ok(waiting <= samples * WAITING_PART, `it waited in ${waiting} of ${samples} samples`);
    const report = await run;
    const spent_us = spentUs() - before_us;
    t.equal(report.killed_for, 'wall');
    t.match(Buffer.from(report.stdout).toString(), /^OK/m);
    t.ok(spent_us <= report.wall_us * LAUNCHER_PART, `${spent_us} µs in ${report.wall_us} µs`);
  });
}

for (const name of NAMES) {
  t.test(`a pair: ${name}`, { skip: degraded && 'degraded isolation' }, async (t) => {
    const { hostile, topic } = CASES.find((each) => each.name === name)!;
    const { request } = requestFor(bench, hostile, topic, 'cpp');
    const limits = { ...READER.limits, wall_ms: 120_000 };
    const pair = await bench.many.runPair(request, { ...READER, profile: 'python', limits });
    const { program, interactor, program_ended_first } = pair;
    t.equal(program.killed_for, 'wall', 'it blocks its slot and ends at its limit');
    t.match(interactor, { exit_code: 42, killed_for: null }, 'its partner ends by itself');
    t.match(erred(interactor), /^read \d+$/, 'and has read to the end');
    t.equal(program_ended_first, true);
  });
}
