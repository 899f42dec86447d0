/** A short one of what `make chaos` does at length. The seed is printed and repeats the harms. */
import t from 'tap';
import { chaos } from './chaos.ts';
import { CannotIsolate } from './service.ts';

const seed = Number(process.env['RUNLEDGER_TEST_SEED'] ?? 1 + (Date.now() % 100_000));

t.test('nothing is lost or repeated', async (t) => {
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const say = (line: string) => t.comment(line);
  try {
    const { wrong, ...report } = await chaos({ seed, submissions: 60, workers: 3, say });
    t.same(wrong, []);
    t.ok(Object.keys(report.harms).length > 0, 'while it was harmed');
    t.comment(JSON.stringify(report));
  } catch (error) {
    if (!(error instanceof CannotIsolate)) throw error;
    t.pass('chaos', { skip: error.message });
  }
});
