/**
 * node bench/sandbox_soak.ts [RUNS] [SEED]
 *
 * Question: does anything wear out? Ten thousand runs, hostile among honest, in three languages, on
 * all slots: is each verdict right, is nothing left behind, does the launcher stay as small as it was?
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
console.log(`launcher's resident KiB, in order: ${rss.join(' ')}`);
process.exitCode = wrong.length + faults.length + left.length > 0 ? 1 : 0;
