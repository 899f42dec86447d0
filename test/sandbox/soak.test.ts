/** A short soak test; the long one is bench/sandbox_soak.ts. RUNLEDGER_TEST_SEED repeats a printed seed. */
import t from 'tap';
import { soak } from './soak.ts';

const RUNS = 300;
/** The allocator may keep a few pages more. A leak of one request per run would be tens of MiB. */
const RSS_GROWTH_BYTES = 1024 * 1024;

const seed = Number(process.env['RUNLEDGER_TEST_SEED'] ?? Date.now() % 2 ** 31);

t.test(`${RUNS} runs, seed ${seed}`, async (t) => {
  const result = await soak([{ runs: RUNS, at_once: 4, sides: 'both' }], seed);
  t.ok(result.runs >= RUNS, `${result.runs} runs: ${JSON.stringify(result.verdicts)}`);
  t.same(result.wrong, [], 'every verdict is right');
  t.same(result.faults, [], 'no run is lost');
  t.same(result.left, [], 'nothing is left behind');
  const [first = 0, last = 0] = [result.rss_bytes[1], result.rss_bytes.at(-1)];
  t.ok(last - first < RSS_GROWTH_BYTES, `the launcher has ${first} bytes, then ${last}`);
});
