/**
 * node bench/sandbox_soak.ts [RUNS] [SEED]
 * node bench/sandbox_soak.ts beside [SEED]
 *
 * Does anything degrade over time? Makes ten thousand runs, hostile and honest, in all languages, on all slots. Checks that
 * each verdict is right, and that nothing is left behind. It prints the launcher's memory over time.
 *
 * beside: 500 hostile runs, 8 at a time, and 300 honest ones beside them. Does any honest run go wrong, or take over three
 * times as long as the median of its program? A run of 1 ms that waits for a processor once takes many times as long, so
 * that it counts only if it is also SLOW_MS over the median.
 */
import { readFileSync } from 'node:fs';
import { type Lane, soak } from '../test/sandbox/soak.ts';

const [runs = '10000', seed = `${Date.now() % 2 ** 31}`] = process.argv.slice(2);
const BESIDE: Lane[] = [
  { runs: 500, at_once: 8, sides: 'hostile' },
  { runs: 300, at_once: 1, sides: 'honest' },
];
const lanes: Lane[] =
  runs === 'beside' ? BESIDE : [{ runs: Number(runs), at_once: 4, sides: 'both' }];
/** Kernel memory that is not reclaimed by itself, in KiB, of the whole machine. */
const slab = () => Number(/^SUnreclaim:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]);
const slab_before = slab();
console.log(`seed ${seed}`);
const { verdicts, wrong, faults, before, after, left, rss_bytes, seconds, ...counts } = await soak(
  lanes,
  Number(seed),
);
const KiB = 1024;
const rss = rss_bytes.map((bytes) => Math.round(bytes / KiB));
console.log(
  `${counts.runs} runs in ${seconds.toFixed(0)} s, ${(counts.runs / seconds).toFixed(0)} a second`,
);
console.log(`verdicts: ${JSON.stringify(verdicts)}`);
console.log(`wrong verdicts: ${wrong.length}, faults: ${faults.length}`);
for (const line of [...wrong, ...faults].slice(0, 50)) console.log(`  ${line}`);
console.table({ before, after });
for (const line of left) console.log(`  left behind: ${line}`);
console.log(`kernel memory of the machine: ${slab_before} KiB before, ${slab()} KiB after`);
const SLOW_MS = 50;
let slow = 0;
for (const [name, times] of counts.honest_wall_us) {
  const sorted = times.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)]!;
  const worst = sorted.at(-1)!;
  slow += sorted.filter((time) => time > 3 * median && time > median + SLOW_MS * 1_000).length;
  console.log(
    `  ${name}: ${times.length} runs, median ${ms(median)} ms, worst ${(worst / median).toFixed(2)} of it`,
  );
}
if (runs === 'beside')
  console.log(`honest runs over three times their median, and ${SLOW_MS} ms: ${slow}`);
console.log(`launcher's resident memory over time, in KiB: ${rss.join(' ')}`);
const delayed = runs === 'beside' ? slow : 0;
process.exitCode = wrong.length + faults.length + left.length + delayed > 0 ? 1 : 0;

function ms(us: number): string {
  return (us / 1_000).toFixed(1);
}
