/**
 * node bench/sandbox_soak.ts [RUNS] [SEED]
 *
 * Does anything degrade over time? Makes ten thousand runs, hostile and honest, in three languages, on
 * all slots. Checks that each verdict is right, that nothing is left behind, and that the launcher's
 * memory does not grow.
 */
import { soak } from '../test/sandbox/soak.ts';

const [runs = '10000', seed = `${Date.now() % 2 ** 31}`] = process.argv.slice(2);
console.log(`seed ${seed}`);
const { verdicts, wrong, faults, before, after, left, rss_bytes, seconds, ...counts } = await soak({
  runs: Number(runs),
  seed: Number(seed),
});
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
console.log(`launcher's resident memory over time, in KiB: ${rss.join(' ')}`);
process.exitCode = wrong.length + faults.length + left.length > 0 ? 1 : 0;
