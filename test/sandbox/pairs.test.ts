/**
 * Two programs that talk to each other. A hostile side must end by a limit, with its partner and everything else well;
 * each claim of the form "X cannot Y because Z" has an honest twin. No expectation depends on the speed of the machine.
 */
import t from 'tap';
import { MiB, said, shell, text, withSandbox } from '../executor/box.ts';
import { ISOLATION } from './isolation.ts';
import { erred, GUESSED, GUESSER, LONG, READER, side } from './pair_programs.ts';

const { sandbox, close } = await withSandbox({ ...ISOLATION });
t.teardown(close);

t.test('two programs take turns, and each has a report of its own', async (t) => {
  const report = await sandbox.runPair(GUESSER, GUESSED, { transcript_bytes: 65_536 });
  t.match(report.program, { exit_code: 0, signal: null, killed_for: null });
  t.match(report.interactor, { exit_code: 42, killed_for: null });
  t.match(erred(report.interactor), /^\d+ rounds$/);
  const lines = text(report.transcript).trimEnd().split('\n');
  t.same(lines.slice(0, 4), ['> 500', '< less', '> 250', '< more']);
  t.equal(lines.at(-1), '< right');
  t.equal(
    said(report.program),
    lines
      .filter((line) => line[0] === '>')
      .map((line) => line.slice(2))
      .join('\n'),
  );
  t.equal(report.program.stdout_seen_bytes, report.program.stdout.length);
  t.ok(report.program.cpu_us > 0 && report.program.memory_peak_bytes > 0);
});

t.test(
  'both silent: each ends at its own limit, and then the other sees the end of its input',
  async (t) => {
    const waits = (wall_ms: number) =>
      side('rest = sys.stdin.read()\nprint("end of input", len(rest), file=sys.stderr)', {
        limits: { wall_ms },
      });
    const first = await sandbox.runPair(waits(300), waits(60_000));
    t.match(first.program, { killed_for: 'wall' });
    t.match(first.interactor, { killed_for: null, exit_code: 0 });
    t.equal(erred(first.interactor), 'end of input 0');
    t.equal(first.program_ended_first, true);
    const second = await sandbox.runPair(waits(60_000), waits(300));
    t.match([second.program, second.interactor], [{ exit_code: 0 }, { killed_for: 'wall' }]);
    t.equal(second.program_ended_first, false);
  },
);

t.test(
  'both flooding: the program ends at its limit of output, the interactor at its time',
  async (t) => {
    const limits = { ...LONG, stdout_bytes: 300_000 };
    const flood = shell('exec cat /dev/zero', { limits });
    const timed = shell('exec cat /dev/zero', { limits: { ...limits, wall_ms: 2_000 } });
    const { program, interactor } = await sandbox.runPair(flood, timed);
    t.match(program, { killed_for: 'output' });
    t.equal(program.stdout.length, 300_000);
    t.match(interactor, { killed_for: 'wall' });
    t.equal(interactor.stdout.length, 0, 'what it prints is not kept');
  },
);

t.test(
  'a program cannot make its interactor exceed a limit of output, because that is only passed on',
  async (t) => {
    const limits = { ...LONG, stdout_bytes: 100_000 };
    const answers = side(
      'for line in sys.stdin: print("a longer answer than the question")\nsys.stdout.flush()\nsys.exit(43)',
      { limits },
    );
    const asks = 'sys.stdout.write("?\\n" * 40000)\nsys.stdout.flush()\n';
    const read = 'print(len(sys.stdin.read()), file=sys.stderr)';
    for (const [title, after, ends] of [
      ['exits at once', '', { exit_code: 0 }],
      ['closes its input', 'os.close(0)', { exit_code: 0 }],
      ['never reads', 'time.sleep(60)', { killed_for: 'wall' }],
      ['reads everything', `os.close(1)\n${read}`, { exit_code: 0 }],
    ] as const) {
      const program = side(`${asks}${after}`, { limits: { ...limits, wall_ms: 4_000 } });
      const report = await sandbox.runPair(program, answers);
      t.match(report.program, ends, title);
      t.match(report.interactor, { exit_code: 43, killed_for: null }, title);
      if (after.includes('read()')) t.equal(erred(report.program), `${40_000 * 34}`);
    }
  },
);

t.test(
  'a flood into a partner that never reads ends at the limit, and harms no partner',
  async (t) => {
    const flood = shell('exec cat /dev/zero', { limits: LONG });
    const deaf = side('signal.sigtimedwait([signal.SIGUSR1], 1)\nsys.exit(42)', { limits: LONG });
    const report = await sandbox.runPair(flood, deaf);
    t.match(report.program, { killed_for: 'output' });
    t.match(report.interactor, { exit_code: 42 });
    const timed = shell('exec cat /dev/zero', { limits: { ...LONG, wall_ms: 2_000 } });
    const mirrored = await sandbox.runPair(side('signal.sigtimedwait([signal.SIGUSR1], 1)'), timed);
    t.match([mirrored.program, mirrored.interactor], [{ exit_code: 0 }, { killed_for: 'wall' }]);
    const twin = await sandbox.runPair(shell('head -c 900000 /dev/zero'), READER);
    t.match(twin.program, { exit_code: 0 }, 'within its limit');
    t.equal(erred(twin.interactor), 'read 900000', 'and all of it arrives');
  },
);

t.test(
  'a program that ends early cannot end its partner, because what is written to it is discarded',
  async (t) => {
    const writes = side('for n in range(20000): say("a line that nobody reads")\nsys.exit(42)', {
      limits: LONG,
    });
    for (const early of ['pass', 'os.close(0)\ntime.sleep(0.3)', 'os.kill(os.getpid(), 9)']) {
      const { interactor } = await sandbox.runPair(side(early), writes);
      t.match(interactor, { exit_code: 42, signal: null }, early);
    }
    const mirrored = await sandbox.runPair(
      side('for n in range(20000): say("a line")\nprint(sys.stdin.read() == "", file=sys.stderr)'),
      side('sys.exit(43)'),
    );
    t.match(mirrored.program, { exit_code: 0, signal: null }, 'nor an interactor its program');
    t.equal(erred(mirrored.program), 'True', 'which sees the end of its input');
    t.match(mirrored, { interactor: { exit_code: 43 }, program_ended_first: false });
  },
);

t.test(
  'what a program has written before its end arrives, however slowly it is read',
  async (t) => {
    const slow = side(
      'total = 0\nwhile chunk := os.read(0, 1000):\n    total += len(chunk)\n    time.sleep(0.0005)\nprint(total, file=sys.stderr)',
      { limits: LONG },
    );
    const { program, interactor } = await sandbox.runPair(shell('head -c 600000 /dev/zero'), slow);
    t.match(program, { exit_code: 0, stdout_seen_bytes: 600_000 });
    t.equal(erred(interactor), '600000');
  },
);

t.test('a partner gets exactly what is kept: nothing of what exceeds the limit', async (t) => {
  const limits = { ...LONG, stdout_bytes: 1_000 };
  const over = await sandbox.runPair(shell('head -c 5000 /dev/zero', { limits }), READER);
  t.equal(erred(over.interactor), 'read 1000');
  t.equal(over.program.stdout.length, 1_000);
  t.ok(over.program.stdout_seen_bytes > 1_000);
  const exact = await sandbox.runPair(shell('head -c 1000 /dev/zero', { limits }), READER);
  t.match(exact.program, { exit_code: 0, killed_for: null, stdout_seen_bytes: 1_000 });
  t.equal(erred(exact.interactor), 'read 1000');
});

const SECRET = 'the-secret-of-the-interactor';
t.test('neither side can see the other’s files, processes or descriptors', async (t) => {
  const keeper = side(
    `
open('secret', 'w').write('${SECRET}')
say('ready', os.getpid())
input()
print(open('answer').read() == '${SECRET}' and open('secret').read() == '${SECRET}', file=sys.stderr)
sys.exit(42)
`,
    { files: [{ path: 'answer', bytes: Buffer.from(SECRET) }], env: { SECRET }, limits: LONG },
  );
  const thief = side(
    `
import glob
input()
found = []
places = ['/box/*', '/tmp/*', '/dev/shm/*', '/load*/*'] + ['/proc/[0-9]*/' + part for part in ('*', 'fd/*', 'cwd/*', 'root/box/*', 'root/tmp/*')]
places += ['/tmp/runledger.%d/s%d/box/%s' % (n, s, name) for n in range(8) for s in range(4) for name in ('answer', 'secret')]
for path in (path for place in places for path in (glob.glob(place) if '*' in place else [place])):
    try:
        if os.path.isfile(path) and '${SECRET.slice(0, 10)}' + '${SECRET.slice(10)}' in open(path, errors='replace').read(1 << 20): found.append(path)
    except OSError: pass
try: pids = len([name for name in os.listdir('/proc') if name.isdigit()])
except OSError: pids = 1
descriptors = []
for n in range(3, 1024):
    try: os.fstat(n); descriptors.append(n)
    except OSError: pass
signalled = []
for pid in range(1, 400):
    if pid == os.getpid(): continue
    try: os.kill(pid, 0); signalled.append(pid)
    except OSError: pass
kinds = sorted({os.readlink('/proc/self/fd/%d' % n).split(':')[0] for n in range(3)})
print(found, pids, descriptors, [pid for pid in signalled if pid != 1], kinds, file=sys.stderr)
say('done')
`,
    { limits: LONG },
  );
  const { degraded } = sandbox.isolation;
  const { program, interactor } = await sandbox.runPair(thief, keeper);
  const expected = degraded ? /^\[\] \d+ \[\] \[.*\] \['pipe'\]$/ : /^\[\] 1 \[\] \[\] \['pipe'\]$/;
  t.match(erred(program), expected);
  t.equal(erred(interactor), 'True', 'which sees its own');
});

t.test(
  'a program that opens its pipes again harms only itself, because they are its own',
  async (t) => {
    const forger = side(
      `
own = os.open('/dev/stdin', os.O_RDWR)
os.write(own, b'forged\\n')
print(os.read(0, 100), file=sys.stderr)
back = os.open('/dev/stdout', os.O_RDONLY | os.O_NONBLOCK)
try: print(os.read(back, 100), file=sys.stderr)
except OSError: pass
say('honest')
`,
      { limits: { wall_ms: 60_000 } },
    );
    const listener = side('print(repr(sys.stdin.readline()), file=sys.stderr)\nsys.exit(42)', {
      limits: LONG,
    });
    const { program, interactor, transcript } = await sandbox.runPair(forger, listener, {
      transcript_bytes: 1_000,
    });
    t.match(erred(program), /^b'forged\\n'/);
    t.match(interactor, { exit_code: 42 });
    t.equal(erred(interactor), String.raw`'honest\n'`);
    t.equal(text(transcript), '> honest\n');
  },
);

t.test('single bytes without end: the run ends by its limit of output', async (t) => {
  const drops = side('while True: os.write(1, b"x")', {
    limits: { ...LONG, stdout_bytes: 20_000 },
  });
  const { program, interactor } = await sandbox.runPair(drops, READER);
  t.match(program, { killed_for: 'output' });
  t.equal(erred(interactor), 'read 20000');
});

t.test(
  'the side that ended first is known, whatever the other side does because of it',
  async (t) => {
    const dies = {
      'for its memory': side('x = bytearray(400 << 20)', { limits: { memory_bytes: 64 * MiB } }),
      'by a signal': side('os.kill(os.getpid(), 11)'),
      'by itself': side('sys.exit(3)'),
      'for its time': side('while True: pass', { limits: { cpu_ms: 100 } }),
      // The kernel frees this file after it has closed the output, and needs longer than the other side needs to end.
      slowly: side(
        `
file = os.open('large', os.O_RDWR | os.O_CREAT)
os.unlink('large')
for _ in range(400): os.write(file, bytes(1 << 20))
os.dup2(file, 0)
os.close(file)
os.kill(os.getpid(), 11)
`,
        { limits: { ...LONG, memory_bytes: 512 * MiB, disk_bytes: 512 * MiB } },
      ),
    };
    const follows = shell('cat >/dev/null; exit 43', { limits: LONG });
    const floods_then = shell('cat >/dev/null; exec cat /dev/zero', { limits: LONG });
    for (const [how, end] of Object.entries(dies))
      for (let round = 0; round < 5; round++) {
        const first = await sandbox.runPair(end, follows);
        t.equal(first.program_ended_first, true, how);
        t.match(first.interactor, { exit_code: 43 });
        const second = await sandbox.runPair(floods_then, end);
        t.match(second.program, { killed_for: 'output' });
        t.equal(second.program_ended_first, false, `${how}, mirrored`);
      }
  },
);

t.test('an output that is closed early is not the end of its run', async (t) => {
  const sleeps = side('time.sleep(60)', { limits: { ...LONG, wall_ms: 1_000 } });
  const quiet = side('os.close(1)\nsys.stdin.read()\nsys.exit(43)', { limits: LONG });
  const first = await sandbox.runPair(sleeps, quiet);
  t.match(first, { program: { killed_for: 'wall' }, interactor: { exit_code: 43 } });
  t.equal(first.program_ended_first, true, 'the interactor still ran');
  const then_sleeps = side('os.close(1)\nsys.stdin.read()\ntime.sleep(60)', {
    limits: { ...LONG, wall_ms: 4_000 },
  });
  const second = await sandbox.runPair(then_sleeps, READER);
  t.match(second, { program: { killed_for: 'wall' }, interactor: { exit_code: 42 } });
  t.equal(second.program_ended_first, false, 'the program still ran');
});

/** The first thread of the process ends, and another one does the work. */
const inThread = (work: string, limits: object = {}) =>
  side(
    `
import ctypes, threading
def work():
${work.replaceAll(/^/gm, '    ')}
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
`,
    { limits: { ...LONG, ...limits } },
  );

t.test('a process whose first thread has ended goes on until its last thread ends', async (t) => {
  const ends = 'sys.stdin.read()\nos._exit(43)';
  const closes = inThread('os.close(1)\nsys.stdin.read()\ntime.sleep(60)', { wall_ms: 4_000 });
  const goes_on = await sandbox.runPair(closes, side(ends, { limits: LONG }));
  t.match(goes_on, { program: { killed_for: 'wall' }, interactor: { exit_code: 43 } });
  t.equal(goes_on.program_ended_first, false, 'it closed its output, and still ran');
  const of_both = await sandbox.runPair(closes, inThread(`os.close(1)\n${ends}`));
  t.match(of_both, { program: { killed_for: 'wall' }, interactor: { exit_code: 43 } });
  t.equal(of_both.program_ended_first, false, 'nor did its interactor, until it had read all');
  // Its partner has the end of its input before the program has used its limit.
  const spins = inThread('os.close(1)\nwhile True: pass', { cpu_ms: 900, wall_ms: 60_000 });
  const ended = await sandbox.runPair(spins, side(ends, { limits: LONG }));
  t.match(ended, { program: { exit_code: null }, interactor: { exit_code: 43 } });
  t.equal(ended.program_ended_first, false);
  for (let round = 0; round < 4; round++) {
    const died = await sandbox.runPair(inThread('os.kill(os.getpid(), 11)'), inThread(ends));
    t.match(died, { program: { signal: 11 }, interactor: { exit_code: 43 } });
    t.equal(died.program_ended_first, true, 'the honest twin: all of its threads ended');
    // Degraded, the stacks of threads count for the limit of memory.
    const many = `
import threading
threading.stack_size(1 << 18)
for n in range(20): threading.Thread(target=signal.pause, daemon=True).start()`;
    const with_threads = side(`${many}\nos.kill(os.getpid(), 11)`, { limits: LONG });
    const died_with = await sandbox.runPair(with_threads, side(ends, { limits: LONG }));
    t.match(died_with, { program: { signal: 11 }, interactor: { exit_code: 43 } });
    t.equal(died_with.program_ended_first, true, 'and with many threads');
  }
});

t.test('an output that is closed early is an end of input, and the run goes on', async (t) => {
  const quiet = side(
    'say("x")\nos.close(1)\nos.dup2(2, 1)\nsys.stdin.read()\nprint("went on", file=sys.stderr)',
  );
  const { program, interactor } = await sandbox.runPair(quiet, READER);
  t.match(program, { exit_code: 0 });
  t.equal(erred(program), 'went on');
  t.equal(erred(interactor), 'read 2');
});

t.test('what a process that is left keeps open holds nobody up', async (t) => {
  const orphans = shell('(trap "" HUP TERM; sleep 60) & (setsid sleep 60) & echo last');
  const { program, interactor } = await sandbox.runPair(orphans, READER);
  t.match(program, { exit_code: 0 });
  t.equal(erred(interactor), 'read 5');
  const hidden = side(`
import socket, array
a, b = socket.socketpair()
for end in a, b, a:
    end.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, a.fileno(), b.fileno()]))])
say('last')
`);
  const cycle = await sandbox.runPair(hidden, READER);
  t.match(cycle.program, { exit_code: 0 }, 'not even in a socket that holds itself');
  t.equal(erred(cycle.interactor), 'read 5');
});

t.test('a transcript is cut, and costs nothing where none is asked for', async (t) => {
  const cut = await sandbox.runPair(GUESSER, GUESSED, { transcript_bytes: 10 });
  t.equal(text(cut.transcript), '> 500\n< le');
  t.equal((await sandbox.runPair(GUESSER, GUESSED)).transcript.length, 0);
  const binary = side('os.write(1, bytes(range(256)) + b"\\r\\n\\n")\nsys.stdin.read()');
  const { transcript } = await sandbox.runPair(binary, READER, { transcript_bytes: 1_000 });
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n)).toString('latin1');
  t.equal(
    Buffer.from(transcript).toString('latin1'),
    `> ${bytes.replace('\n', '\n> ')}\r\n> \n`,
    'every byte is kept',
  );
});

t.test('an interactor’s files are kept, and its input can be a large file', async (t) => {
  const interactor = side(
    'say(open("input").read())\nopen("feedback/judgemessage.txt", "w").write(input())\nsys.exit(43)',
    {
      files: [{ path: 'input', bytes: Buffer.from('21') }],
      folders: ['feedback'],
      keep: { patterns: ['feedback/*'], max_bytes: 4_096, max_files: 4 },
    },
  );
  const report = await sandbox.runPair(side('say(2 * int(input()))'), interactor, {
    transcript_bytes: 99,
  });
  t.same(
    report.interactor.kept?.map(({ path, bytes }) => [path, text(bytes)]),
    [['feedback/judgemessage.txt', '42']],
  );
  t.equal(text(report.transcript), '< 21\n> 42\n');
  t.notOk('kept' in report.program);
});
