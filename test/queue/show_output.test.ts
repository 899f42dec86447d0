/** What a worker shows of the output of its runs, and how much at once. The runs' output comes from the test. */
import t from 'tap';
import type { Peek } from '../../src/executor/sandbox.ts';
import { createLog } from '../../src/log.ts';
import { createRuns } from '../../src/queue/runs.ts';
import { createOutputShow } from '../../src/queue/show_output.ts';
import type { OutputPiece } from '../../src/store/live_output.ts';

const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
const NEVER = new AbortController().signal;

/** Shows runs that print what `printed` says, and gives what each statement stores. */
function scene() {
  const runs = createRuns();
  const stored: OutputPiece[][] = [];
  let onStored = () => {};
  const show = createOutputShow({
    runs,
    store: () => ({
      async show(pieces) {
        stored.push([...pieces]);
        onStored();
      },
    }),
    log,
  });
  const begin = (id: string, printed: { stdout: Buffer; stderr?: Buffer }) => {
    const run = runs.begin(id, NEVER);
    const peek: Peek = async (from, most) => {
      const stdout = printed.stdout.subarray(from.stdout, from.stdout + most);
      const rest = from.stderr + most - stdout.length;
      const stderr = (printed.stderr ?? Buffer.alloc(0)).subarray(from.stderr, rest);
      return { stdout, stderr };
    };
    run.prints(1, peek);
    return run;
  };
  const statement = async (n: number) => {
    while (stored.length <= n)
      await new Promise<void>((resolve) => {
        onStored = resolve;
      });
    return stored[n]!;
  };
  return { runs, show, begin, statement, stored };
}

t.test('both streams, from the beginning, in whole characters, and nothing twice', async (t) => {
  const s = scene();
  const printed = { stdout: Buffer.from('aé€😀').subarray(0, -1), stderr: Buffer.from([0xff]) };
  const run = s.begin('followed', printed);
  s.begin('not followed', { stdout: Buffer.from('secret') });
  s.show.follow(['followed', 'gone']);
  const of = { submission_id: 'followed', attempt: 1 };
  t.same(await s.statement(0), [
    { ...of, is_stderr: false, begins_at: 0, bytes: Buffer.from('aé€') },
    { ...of, is_stderr: true, begins_at: 0, bytes: Buffer.from([0xff]) },
  ]);
  printed.stdout = Buffer.from('aé€😀b');
  t.same(await s.statement(1), [
    { ...of, is_stderr: false, begins_at: 6, bytes: Buffer.from('😀b') },
  ]);
  run.prints(1, async () => ({ stdout: Buffer.from('2'), stderr: Buffer.alloc(0) }));
  t.match(await s.statement(2), [{ begins_at: 0 }], 'another pass begins from its beginning');
  run.leave();
});

t.test(
  'a run, and a worker, show a bounded number of bytes at once, each run in turn',
  async (t) => {
    const s = scene();
    const ids = Array.from({ length: 6 }, (_, n) => `run ${n}`);
    const runs = ids.map((id) => s.begin(id, { stdout: Buffer.alloc(100_000, 'x') }));
    s.show.follow(ids);
    const begun = performance.now();
    const shown = new Map<string, number>();
    for (let n = 0; n < 6; n += 1) {
      const pieces = await s.statement(n);
      t.ok(pieces.every(({ bytes }) => bytes.length === 6_400));
      t.equal(pieces.length, 4);
      for (const { submission_id: id } of pieces) shown.set(id, (shown.get(id) ?? 0) + 1);
    }
    t.same([...shown.values()], [4, 4, 4, 4, 4, 4]);
    t.ok(performance.now() - begun >= 490, 'a tenth of a second lies between two of six');
    for (const run of runs) run.leave();
  },
);
