/**
 * Hostile programs that are judged, and hostile interactors, in real boxes. Each ends by a limit or by a verdict that it
 * cannot choose; the next execution in the same slots is judged as if it had never been.
 */
import t from 'tap';
import type { Judging } from '../../src/judging/judging.ts';
import { anExecutor, PLAIN, text } from './an_executor.ts';
import { aJudge, aTest, contentStore, judging } from './judgings.ts';

const store = contentStore();
/** Enough for an honest program on a busy machine: the most that a submission may ask for. */
const LONG = { cpu_time_ms: 15_000, wall_time_ms: 30_000, memory_bytes: 64 * 2 ** 20 };
/** For what must run out of time. */
const SHORT = { ...LONG, cpu_time_ms: 1_000, wall_time_ms: 2_000 };
const { run } = await anExecutor(t, {
  languages: ['python'],
  switches: PLAIN,
  slots: 2,
  fetch: store.fetch,
});

async function judged(code: string, more: Partial<Judging>, limits = LONG) {
  const tests = more.tests ?? [aTest('input', 'answer')];
  const outcome = await run('python', code, {
    judging: judging({ ...more, tests }),
    limits,
  });
  const ended = outcome.judged!.tests!;
  return {
    ...outcome,
    verdicts: ended.map(({ verdict }) => verdict).join(' '),
    outputs: ended.map(({ stdout }) => text(stdout)),
    message: ended[0]!.message,
  };
}

const HONEST_INTERACTOR = `import sys
print('hello', flush=True)
sys.exit(42 if sys.stdin.readline() == 'olleh\\n' else 43)`;

async function isWell(): Promise<boolean> {
  const interactor = aJudge('python', HONEST_INTERACTOR);
  return (await judged('print(input()[::-1])', { interactor })).verdict === 'AC';
}

/** Keeps something wherever it can; on the second test it says where it found something. */
const CARRIES = `import ctypes, mmap, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
first = input() == '1'
found = []
def attempt(name, put, get):
    try:
        if first: put()
        elif get(): found.append(name)
    except OSError: pass
def put_file(path):
    def put():
        with open(path, 'w') as file: file.write('seen')
    return put
for folder in ['/box', '/tmp', '/dev/shm', '/var/tmp', '/run', '/dev', '/load', '/load2', '/', '/etc', '/proc/self']:
    path = folder + '/seen'
    attempt(path, put_file(path), lambda: os.path.exists(path))
def abstract():
    global kept
    kept = socket.socket(socket.AF_UNIX)
    kept.bind('\\0seen')
    kept.listen()
attempt('abstract socket', abstract, lambda: socket.socket(socket.AF_UNIX).connect('\\0seen') is None)
attempt('shared memory', lambda: libc.shmget(77, 4096, 0o1666), lambda: libc.shmget(77, 4096, 0o666) >= 0)
attempt('semaphore', lambda: libc.semget(77, 1, 0o1666), lambda: libc.semget(77, 1, 0o666) >= 0)
attempt('queue', lambda: libc.msgget(77, 0o1666), lambda: libc.msgget(77, 0o666) >= 0)
attempt('posix queue', lambda: libc.mq_open(b'/seen', os.O_CREAT | os.O_RDWR, 0o666, None), lambda: libc.mq_open(b'/seen', os.O_RDWR) >= 0)
KEY = (b'user', b'seen', b'seen', 4, -4)
attempt('key', lambda: libc.syscall(248, *KEY), lambda: libc.syscall(249, b'user', b'seen', None, 0) >= 0)
attempt('priority', lambda: os.nice(7), lambda: os.nice(0) != 0)
attempt('binary', lambda: os.utime('/box/main.py', (1, 1)), lambda: os.stat('/box/main.py').st_mtime == 1)
attempt('host name', lambda: socket.sethostname('seen'), lambda: socket.gethostname() == 'seen')
attempt('terminal', lambda: os.open('/dev/ptmx', os.O_RDWR), lambda: os.listdir('/dev/pts'))
def others(): return [name for name in os.listdir('/proc') if name.isdigit() and int(name) not in (os.getpid(), 1)]
def daemon():
    if os.fork() == 0:
        os.setsid()
        for one in range(3): os.dup2(os.open('/dev/null', os.O_RDWR), one)
        time.sleep(99)
attempt('process', daemon, others)
attempt('group of processes', lambda: None, lambda: os.path.exists('/sys/fs/cgroup/seen'))
print(found)`;

t.test('a program does not find what it left in an earlier test', async (t) => {
  const tests = ['1', '2', '2', '1', '2', '2'].map((input) => aTest(input, '[]'));
  const carried = await judged(CARRIES, { tests, stop: 'never' });
  t.strictSame(carried.outputs, Array(6).fill('[]\n'));
  const within = CARRIES.replace("first = input() == '1'", 'first = True').concat(
    '\nfirst = False\n',
    CARRIES.slice(CARRIES.indexOf('for folder'), CARRIES.indexOf('def abstract')),
    'print(found)',
  );
  const twin = await judged(within, { tests: [aTest('1', null)] });
  t.match(twin.outputs[0], /'\/box\/seen', '\/tmp\/seen', '\/dev\/shm\/seen'/, 'it looks rightly');
});

/** Everything that it can read, but for its own source. */
const READS = `import os
found = []
for top in ['/box', '/tmp', '/dev/shm', '/load', '/load2', '/proc', '/etc', '/var', '/run', '/home', '/root', '/opt', '/srv', '/mnt', '/sys']:
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            if path == '/box/main.py' or '/fd/' in path or not os.path.isfile(path): continue
            try:
                with open(path, 'rb') as file:
                    if b'the ' + b'secret' in file.read(1 << 20): found.append(path)
            except OSError: pass
print(found, open(0).read())`;

t.test('a program finds neither answers nor checker nor other inputs', async (t) => {
  const source = `# the secret checker\nimport sys\nsys.exit(42 if sys.stdin.read() == '[] mine\\n' else 43)`;
  const tests = ['mine', 'the secret of another test'].map((input) =>
    aTest('', null, { input: store.put(input), answer: store.put(`the secret of ${input}`) }),
  );
  const outcome = await judged(READS, { checker: aJudge('python', source), tests });
  t.equal(outcome.outputs[0], '[] mine\n');
  t.equal(outcome.verdicts, 'AC WA', 'each sees its own input alone');
  const files = [{ path: 'own', bytes: Buffer.from('the secret') }];
  const twin = await judged(READS, { files, tests: [aTest('', null)] });
  t.equal(twin.outputs[0], "['/box/own'] \n", 'what is there, is found');
});

t.test('a checker finds nothing of the program, and of the set its own test alone', async (t) => {
  const leaves = `for path in ['/box/left', '/tmp/left', '/dev/shm/left']:
    open(path, 'w').write('the secret')
import os, time
if os.fork() == 0: time.sleep(99)
print('output')`;
  const looks = `import sys\n${READS.replace("path == '/box/main.py'", "path in ('/box/main.py', '/load2/input', '/load2/answer')").replace('print(found, open(0).read())', "processes = [one for one in os.listdir('/proc') if one.isdigit()]\nif found or len(processes) > 2 or sorted(os.listdir('/load2')) != ['answer', 'input']: raise Exception(found, processes)\nsys.exit(42)")}`;
  const tests = ['the secret 1', 'the secret 2'].map((input) =>
    aTest('', null, { input: store.put(input), answer: store.put(`answer of ${input}`) }),
  );
  const outcome = await judged(leaves, { checker: aJudge('python', looks), tests });
  t.equal(outcome.verdicts, 'AC AC', outcome.message ?? '');
});

type Case = {
  title: string;
  program: string;
  more: Partial<Judging>;
  limits?: typeof LONG;
  expected: RegExp;
};

function all(cases: readonly Case[]): void {
  for (const { title, program, more, limits, expected } of cases) {
    t.test(title, async (t) => {
      const { verdicts, message } = await judged(program, more, limits);
      t.match(`${verdicts}: ${message}`, expected);
      t.ok(await isWell(), 'the next execution is judged as ever');
    });
  }
}

const file = (code: string) => `import os\npath = 'out'\n${code}`;
const judges: Partial<Judging> = { stdout_file: 'out', tests: [aTest('', 'answer')] };
const echo = aJudge(
  'python',
  "import sys; print('points 1', open(sys.argv[2]).read(), file=sys.stderr); sys.exit(7)",
  { protocol: 'testlib' },
);

all([
  {
    title: 'an exit code that means right for a checker',
    program: 'raise SystemExit(42)',
    more: {},
    expected: /^RE/,
  },
  {
    title: 'a program that prints points',
    program: "print('\\npoints 100')",
    more: { checker: echo, scoring: 'score' },
    expected: /^AC: points 1 \n/,
  },
  {
    title: 'an output file that is a link',
    program: file("os.symlink('/proc/self/exe', path)"),
    more: judges,
    expected: /^WA/,
  },
  {
    title: 'an output file that is a pipe',
    program: file('os.mkfifo(path)'),
    more: judges,
    expected: /^WA/,
  },
  {
    title: 'an output file that is a folder',
    program: file('os.mkdir(path)'),
    more: judges,
    expected: /^WA/,
  },
  {
    title: 'an output file with a hole of 60 MiB',
    program: file('os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 60 << 20)'),
    more: judges,
    expected: /^OLE/,
  },
  {
    title: 'an output file with a hole of 1 TiB',
    program: file('os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40)'),
    more: judges,
    expected: /^(RE|SIG|OLE)/,
  },
  {
    title: 'an output file beside 3,000 others',
    program: file("for n in range(3000): open(f'{path}{n}', 'w')\nopen(path, 'w').write('answer')"),
    more: judges,
    expected: /^AC/,
  },
  {
    title: 'a work folder that nobody may enter',
    program: file("open(path, 'w').write('answer')\nos.chmod('.', 0)"),
    more: judges,
    expected: /^(AC|WA)/,
  },
  {
    title: 'modules that hide those of Python',
    program: 'import json, os\nprint(json.here, input())',
    more: {
      files: [
        'json.py',
        'sitecustomize.py',
        'usercustomize.py',
        'encodings/__init__.py',
        'os.py',
        'conftest.py',
      ].map((path) => ({ path, bytes: Buffer.from("here = 'mine'") })),
      tests: [aTest('input', 'mine input')],
      checker: aJudge(
        'python',
        "import json, sys\nsys.exit(42 if hasattr(json, 'loads') and sys.stdin.read() == 'mine input\\n' else 3)",
      ),
    },
    expected: /^AC/,
  },
  {
    title: 'a number of 100,000 digits',
    program: "print('9' * 100000)",
    more: {
      compare: { by: 'tokens', case_sensitive: true, absolute: 1e-6, relative: 1e-6 },
      tests: [aTest('', 'nan')],
    },
    expected: /^WA/,
  },
  {
    title: 'nan, inf and 1e400',
    program: "print('nan inf 1e400 -nan')",
    more: {
      compare: { by: 'tokens', case_sensitive: true, absolute: 1e308, relative: 1e308 },
      tests: [aTest('', '1 1 inf 0')],
    },
    expected: /^WA/,
  },
]);

const talks = (code: string, limits = LONG): Partial<Judging> => ({
  interactor: aJudge('python', `import os, sys, time\n${code}`, { limits }),
});
const WAITS = 'import sys\nprint(sys.stdin.readline())\nwhile True: pass';
const FLOODS = "import os\nwhile True: os.write(1, b'x' * 65536)";

all([
  {
    title: 'an interactor that never reads',
    program: FLOODS,
    // The interactor may take as long, and waits to its end.
    limits: { ...LONG, wall_time_ms: 10_000 },
    more: talks('time.sleep(99)', SHORT),
    expected: /^OLE/,
  },
  {
    title: 'both silent',
    program: 'print(input())',
    limits: SHORT,
    more: talks('sys.stdin.read(); sys.exit(42)', SHORT),
    expected: /^(TLE|IE)/,
  },
  {
    title: 'both flooding',
    program: FLOODS,
    more: talks("while True: os.write(1, b'x' * 65536)"),
    expected: /^(OLE|IE)/,
  },
  {
    title: 'an interactor that ends at once',
    program: WAITS,
    limits: SHORT,
    more: talks('sys.exit(42)'),
    expected: /^TLE/,
  },
  {
    title: 'an interactor that closes its output and goes on',
    program: 'import sys\nprint(sys.stdin.read())',
    more: talks('os.close(1); sys.stdin.read(); sys.exit(42)'),
    expected: /^AC/,
  },
  {
    title: 'an interactor that spends its time',
    program: 'print(input())',
    limits: SHORT,
    more: talks('while True: pass', SHORT),
    expected: /^(TLE|IE)/,
  },
  {
    title: 'an interactor that takes all memory',
    program: 'print(input())',
    more: talks('x = []\nwhile True: x.append(bytearray(1 << 20))'),
    expected: /^IE: the interactor/,
  },
  {
    title: 'an interactor that forks without end',
    program: 'print(input())',
    limits: SHORT,
    more: talks('while True: os.fork()', SHORT),
    expected: /^(IE|TLE)/,
  },
  {
    title: 'an interactor that signals everything',
    program: 'print(input())',
    more: talks(
      "for n in range(-1, 300):\n  try:\n    if n not in (0, os.getpid()): os.kill(n, 9)\n  except OSError: pass\nprint('x', flush=True)\nsys.exit(42 if sys.stdin.readline() == 'x\\n' else 43)",
    ),
    expected: /^AC/,
  },
  {
    title: 'an interactor that passes a descriptor',
    program: 'print(input())',
    more: talks(
      "import socket\ntry: socket.send_fds(socket.socket(fileno=1), [b'x'], [0])\nexcept OSError: os.write(1, b'no\\n')\nsys.exit(42 if sys.stdin.readline() == 'no\\n' else 43)",
    ),
    expected: /^AC/,
  },
  {
    title: 'an interactor that leaves a process with its pipes',
    program: 'import sys\nprint(len(sys.stdin.read()))',
    more: talks(
      "if os.fork() == 0:\n  os.setsid()\n  time.sleep(99)\nprint('x', flush=True)\nsys.exit(42)",
    ),
    expected: /^AC/,
  },
  {
    title: 'a program that ends before a word',
    program: '',
    more: talks('print(sys.stdin.readline())\nsys.exit(43)'),
    expected: /^WA/,
  },
  {
    title: 'a program that closes all and goes on',
    program: 'import os\nfor n in range(3): os.close(n)\nwhile True: pass',
    limits: SHORT,
    more: talks('sys.stdin.read(); sys.exit(42)'),
    expected: /^TLE/,
  },
  {
    title: 'a program that reads its interactor',
    program:
      "import os\nprint(sorted(one for one in os.listdir('/proc') if one.isdigit() and int(one) > 9), os.listdir('/box'), os.path.exists('/load2/answer'))",
    more: talks(
      'line = sys.stdin.readline()\nsys.exit(42 if line == "[] [\'main.py\'] False\\n" else 43)',
    ),
    expected: /^AC/,
  },
]);
