import t from 'tap';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';

const MiB = 1024 * 1024;

for (const python_zygote of [false, true])
  t.test(python_zygote ? 'Python, forked' : 'Python, started', async (t) => {
    const { run } = await anExecutor(t, {
      languages: ['python'],
      switches: { ...PLAIN, python_zygote },
    });
    const python = (code: string, more = {}) => run('python', code, more);

    t.test('runs, and its measurements are of the run', async (t) => {
      const outcome = await python('print("hello")');
      t.match(outcome, {
        verdict: 'AC',
        status: 'completed',
        exit_code: 0,
        signal: null,
        compile: null,
      });
      t.equal(outcome.stdout, 'hello\n');
      t.equal(outcome.stderr, '');
      t.ok(outcome.cpu_time_us! > 1_000 && outcome.cpu_time_us! < 1_000_000);
      t.ok(outcome.wall_time_us! > 1_000);
      t.ok(outcome.memory_peak_bytes! > 1 * MiB);
    });

    t.test('reads stdin to its end, and arguments as they were given', async (t) => {
      const code = 'import sys\nprint(sys.argv[1:], repr(sys.stdin.read()), input.__name__)';
      const outcome = await python(code, { stdin: 'a\n\0é', args: ['x y', '', '-c', "'", 'é'] });
      t.equal(outcome.stdout, `['x y', '', '-c', "'", 'é'] 'a\\n\\x00é' input\n`);
    });

    t.test('is a script as users know it', async (t) => {
      const code =
        'import sys, os\nprint(__name__, __file__, sys.argv, os.getcwd(), sys.flags.isolated)';
      t.equal((await python(code)).stdout, "__main__ /box/main.py ['/box/main.py'] /box 1\n");
    });

    t.test('exit codes', async (t) => {
      t.match(await python('exit(3)'), { verdict: 'RE', exit_code: 3, signal: null });
      t.match(await python('import sys; sys.exit()'), { verdict: 'AC', exit_code: 0 });
      t.match(await python('raise SystemExit("why")'), {
        verdict: 'RE',
        exit_code: 1,
        stderr: 'why\n',
      });
      t.match(await python('import os; os._exit(200)'), { verdict: 'RE', exit_code: 200 });
    });

    t.test('an uncaught exception has its traceback', async (t) => {
      const outcome = await python('def f():\n    return 1 / 0\n\nf()\n');
      t.match(outcome, { verdict: 'RE', exit_code: 1 });
      // Newer interpreters underline the place.
      const lines = outcome.stderr.split('\n').filter((line) => !/^[ ~^]+$/.test(line));
      t.equal(
        lines.join('\n'),
        [
          'Traceback (most recent call last):',
          '  File "/box/main.py", line 4, in <module>',
          '    f()',
          '  File "/box/main.py", line 2, in f',
          '    return 1 / 0',
          'ZeroDivisionError: division by zero',
          '',
        ].join('\n'),
      );
    });

    t.test('a syntax error is an error of the run', async (t) => {
      const outcome = await python('print(');
      t.match(outcome, { verdict: 'RE', exit_code: 1, compile: null });
      t.match(outcome.stderr, /SyntaxError/);
    });

    t.test('signals have names', async (t) => {
      const dies = (name: string) =>
        python(`import os, signal; os.kill(os.getpid(), signal.${name})`);
      t.match(await dies('SIGSEGV'), { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV' });
      t.match(await dies('SIGABRT'), { verdict: 'SIG', exit_code: 134, signal: 'SIGABRT' });
      t.match(await dies('SIGKILL'), { verdict: 'SIG', exit_code: 137, signal: 'SIGKILL' });
      t.match(await dies('SIGTERM'), { verdict: 'SIG', exit_code: 143, signal: 'SIGTERM' });
      t.match(await dies('SIGUSR1'), { verdict: 'SIG', exit_code: 138, signal: 'SIGUSR1' });
    });

    t.test('CPU and wall time each have their limit', async (t) => {
      const spins = await python('while True: pass', { limits: { cpu_time_ms: 200 } });
      t.match(spins, { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL' });
      t.ok(spins.cpu_time_us! >= 200_000);
      t.match(spins.evidence['run'], { killed_for: 'cpu' });
      const sleeps = await python('import time; print(1, flush=True); time.sleep(60)', {
        limits: { wall_time_ms: 3_000 },
      });
      t.match(sleeps, { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL', stdout: '1\n' });
      t.match(sleeps.evidence['run'], { killed_for: 'wall' });
    });

    t.test(
      'memory, by growing; a request that no machine could serve is an exception',
      async (t) => {
        const limits = { memory_bytes: 64 * MiB };
        const grows = await python('x = []\nwhile True: x.append(bytes(1 << 20))', { limits });
        t.match(grows, { verdict: 'MLE', exit_code: 137, signal: 'SIGKILL' });
        const asks = await python('x = bytearray(1 << 50)', { limits });
        t.match(asks, { verdict: 'MLE', exit_code: 1, signal: null });
        t.match(asks.stderr, /MemoryError/);
        const goes_on = 'try: bytearray(1 << 50)\nexcept MemoryError: print("without")';
        t.match(await python(goes_on, { limits }), { verdict: 'AC', stdout: 'without\n' });
      },
    );

    t.test('output to the byte, and not a byte more', async (t) => {
      const limits = { output_bytes: 1000 };
      const fits = await python('print("x" * 999)', { limits });
      t.match(fits, { verdict: 'AC', stdout_truncated: false });
      t.equal(fits.stdout.length, 1000);
      const over = await python('print("x" * 1000)', { limits });
      t.match(over, { verdict: 'OLE', exit_code: 137, signal: 'SIGKILL', stdout_truncated: true });
      t.equal(over.stdout.length, 1000);
    });

    t.test('stderr over its limit is cut, and no verdict', async (t) => {
      const outcome = await python('import sys\nsys.stderr.write("e" * 100_000)\nprint("done")');
      t.match(outcome, { verdict: 'AC', stderr_truncated: true, stdout: 'done\n' });
      t.equal(outcome.stderr.length, 65_536);
    });

    t.test('expected output', async (t) => {
      t.match(await python('print("1 2")', { expected_output: '1 2' }), { verdict: 'AC' });
      t.match(await python('print("1  2")', { expected_output: '1 2' }), {
        verdict: 'WA',
        exit_code: 0,
      });
      const exact = { expected_output: '1 2', compare: 'exact' as const };
      t.match(await python('print("1 2")', exact), { verdict: 'WA' });
      t.match(await python('print("1 2", end="")', exact), { verdict: 'AC' });
    });

    t.test('threads, subprocesses, multiprocessing', async (t) => {
      const threads = `
import threading
total = []
ts = [threading.Thread(target=lambda i=i: total.append(i)) for i in range(20)]
[x.start() for x in ts]; [x.join() for x in ts]
print(sum(total))`;
      t.equal((await python(threads)).stdout, '190\n');
      const subprocess = `
import subprocess, sys
print(subprocess.run(["sh", "-c", "echo $((6 * 7)); exit 5"], capture_output=True, text=True))
print(subprocess.check_output([sys.executable, "-c", "print(1)"], text=True))`;
      t.match((await python(subprocess)).stdout, /returncode=5, stdout='42\\n'[\s\S]*\n1\n/);
      const pool = `
import multiprocessing as m
def square(x): return x * x
if __name__ == "__main__":
    with m.Pool(4) as pool: print(pool.map(square, range(10)))
    q = m.Queue(); p = m.Process(target=q.put, args=("from child",)); p.start(); print(q.get()); p.join()`;
      const pooled = await python(pool);
      t.equal(pooled.stderr, '');
      t.equal(pooled.stdout, '[0, 1, 4, 9, 16, 25, 36, 49, 64, 81]\nfrom child\n');
    });

    t.test('the process limit is an error in the program, not a verdict of its own', async (t) => {
      const code = `
import os
try:
    while True:
        if os.fork() == 0:
            import time; time.sleep(60)
except OSError as e:
    print("refused", e.errno)
    raise SystemExit(4)`;
      const outcome = await python(code, { limits: { processes: 8 } });
      t.match(outcome, { verdict: 'RE', exit_code: 4, stdout: 'refused 11\n' });
      t.ok((outcome.evidence['run'] as { pids_limit_hits: number }).pids_limit_hits > 0);
    });

    t.test('the standard library is whole', async (t) => {
      const code = `
import sqlite3, ssl, json, decimal, asyncio, ctypes, zoneinfo, hashlib, lzma, bz2, curses, unittest, tempfile, csv
print(sqlite3.connect(":memory:").execute("select 6 * 7").fetchone())
async def f(): await asyncio.sleep(0); return 7
print(asyncio.run(f()), hashlib.sha256(b"").hexdigest()[:8], decimal.Decimal("1.1") * 3)
with tempfile.TemporaryFile() as f: f.write(b"x"); print(f.tell())
open("file.txt", "w").write("kept"); print(open("file.txt").read())`;
      const outcome = await python(code);
      t.equal(outcome.stderr, '');
      t.equal(outcome.stdout, '(42,)\n7 e3b0c442 3.3\n1\nkept\n');
    });

    t.test('bytes that are no text come back as they were', async (t) => {
      const code = 'import sys; sys.stdout.buffer.write(bytes(range(256)))';
      const { verdict, stdout_bytes } = await python(code);
      t.equal(verdict, 'AC');
      t.strictSame(
        [...stdout_bytes],
        Array.from({ length: 256 }, (_, i) => i),
      );
    });

    t.test('nothing of a run is left for the next', async (t) => {
      await python('open("left", "w").write("x"); open("/tmp/left", "w").write("x")');
      const looks = await python('import os; print(os.listdir("/box"), os.listdir("/tmp"))');
      t.equal(looks.stdout, "['main.py'] []\n");
    });
  });
