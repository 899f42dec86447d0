/**
 * Hostile checkers, interactors and programs that are judged, in real boxes. Each ends by a limit or by a verdict that it
 * cannot choose, and the next execution in the same slots is judged as if it had never been. Each table ends with an honest
 * twin.
 */
import t from 'tap';
import type { Judging } from '../../src/judging/judging.ts';
import { anExecutor, PLAIN } from './an_executor.ts';
import { aJudge, aTest, contentStore, group, judging } from './judgings.ts';

const store = contentStore();
/** Enough for an honest program on a busy machine: the most that a submission may ask for. */
const LONG = { cpu_time_ms: 15_000, wall_time_ms: 30_000, memory_bytes: 64 * 2 ** 20 };
/** For what must run out of time. */
const SHORT = { ...LONG, cpu_time_ms: 1_000, wall_time_ms: 2_000 };

type Case = {
  title: string;
  program?: string;
  judging: Partial<Judging>;
  limits?: Record<string, number>;
  /** matched against the verdicts, with the message of the first test behind a colon */
  expected: RegExp;
};

const { run } = await anExecutor(t, {
  languages: ['python', 'c', 'cpp', 'java'],
  switches: PLAIN,
  slots: 2,
  fetch: store.fetch,
});

async function end(each: Case): Promise<string> {
  const { program = 'print(input())', limits = LONG } = each;
  const tests = each.judging.tests ?? [aTest('input', 'answer')];
  const outcome = await run('python', program, {
    judging: judging({ ...each.judging, tests }),
    limits,
  });
  const ended = outcome.judged!.tests!;
  const longest = Math.max(...ended.map(({ message }) => message?.length ?? 0));
  t.ok(longest <= 4096 + 200, `${each.title}: a message is cut`);
  return `${ended.map(({ verdict }) => verdict).join(' ')}: ${ended[0]!.message}`;
}

/** The same slots, an honest checker. */
async function isWell(): Promise<boolean> {
  const checker = aJudge('python', HONEST_CHECKER);
  const outcome = await run('python', 'print(input())', {
    judging: judging({ checker, tests: [aTest('input', 'answer')] }),
  });
  return outcome.verdict === 'AC';
}

const HONEST_CHECKER = `import sys
input, answer = (open(path).read() for path in sys.argv[1:3])
sys.exit(42 if (input, answer, sys.stdin.read()) == ('input', 'answer', 'input\\n') else 1)`;

function all(cases: readonly Case[]): void {
  for (const each of cases) {
    t.test(each.title, async (t) => {
      t.match(await end(each), each.expected);
      t.ok(await isWell(), 'the next execution is judged as ever');
    });
  }
}

const checker = (code: string, more: Parameters<typeof aJudge>[2] = {}): Partial<Judging> => ({
  checker: aJudge('python', `import os, sys\n${code}`, { limits: LONG, ...more }),
});
/** `left` in the folder for messages. */
const leaves = (code: string) =>
  checker(`folder = sys.argv[3]\nmessage = folder + 'judgemessage.txt'\n${code}\nsys.exit(42)`);
const groups = [group('all', { accept_score: 10 })];
const inGroup = (judged: Partial<Judging>): Partial<Judging> => ({
  ...judged,
  ...{ scoring: 'score', groups, tests: [aTest('1', null, { group: 'all' })] },
});
const scored = (text: string) =>
  inGroup(leaves(`open(folder + 'score.txt', 'w').write('${text}')`));
const points = (text: string) => prints(`print('points ${text}', file=sys.stderr)`);
/** Of `testlib`; `line` is what the program printed. */
const prints = (code: string) =>
  inGroup(
    checker(`line = open(sys.argv[2], newline='').read()\n${code}\nsys.exit(7)`, {
      protocol: 'testlib',
    }),
  );
const IE = (text: string) => new RegExp(`^IE: the checker ${text}`);
const NO_FILE = (name: string) =>
  IE(`left files that cannot be read: \\.judging/feedback/${name}: it is no regular file$`);

const LIMITS_OF_CHECKERS: Case[] = [
  {
    title: 'a checker that never ends',
    judging: checker('while True: pass', { limits: SHORT }),
    expected: IE('exceeded its limit of (cpu|wall)_time'),
  },
  {
    title: 'a checker that sleeps',
    judging: checker('import time; time.sleep(99)', { limits: SHORT }),
    expected: IE('exceeded its limit of wall_time'),
  },
  {
    title: 'a checker that forks without end',
    judging: checker('while True: os.fork()', { limits: SHORT }),
    expected: IE(''),
  },
  {
    title: 'a checker that takes all memory',
    judging: checker('x = []\nwhile True: x.append(bytearray(1 << 20))'),
    expected: IE(''),
  },
  {
    title: 'a checker that prints without end',
    judging: checker("while True: os.write(1, b'x' * 65536)"),
    expected: IE('exceeded its limit of output'),
  },
  {
    title: 'a checker that prints errors without end',
    judging: checker("while True: os.write(2, b'x' * 65536)", { limits: SHORT }),
    expected: IE('exceeded its limit of (cpu|wall)_time'),
  },
  {
    title: 'a checker that ends itself',
    judging: checker('os.kill(os.getpid(), 9)'),
    expected: IE('was ended by SIGKILL'),
  },
  {
    title: 'a checker that kills all',
    judging: checker('os.kill(-1, 9); sys.exit(42)'),
    expected: IE('exited with 1'),
  },
  {
    title: 'a checker that kills process 1',
    judging: checker('os.kill(1, 9); sys.exit(42)'),
    expected: /^(AC: |IE: the checker exited with 1)/,
  },
  {
    title: 'a checker that leaves a process',
    judging: checker(
      'if os.fork() == 0:\n  os.setsid()\n  import time; time.sleep(99)\nsys.exit(42)',
    ),
    expected: /^AC: /,
  },
  {
    title: 'a checker that does not read',
    program: "print('x' * 1000000)",
    judging: checker('sys.exit(42)'),
    expected: /^AC: /,
  },
  {
    title: 'a checker whose compile never ends',
    judging: {
      checker: aJudge(
        'cpp',
        'template<int n> struct F { typename F<n + 1>::T t; using T = int; };\nF<0> f;\nint main() {}',
      ),
    },
    expected: IE('does not compile'),
  },
  {
    title: 'a checker whose source reads the answer',
    judging: {
      checker: aJudge('c', '__asm__(".incbin \\"/load2/answer\\"");\nint main() { return 42; }'),
    },
    expected: IE('does not compile'),
  },
];

const LEFT_BY_CHECKERS: Case[] = [
  {
    title: 'a message of 60 MiB',
    judging: leaves("open(message, 'w').write('x' * (60 << 20))"),
    expected: /^(AC: x{100}|IE: the checker exceeded its limit)/,
  },
  {
    title: 'a message of 3 MiB, because the checker quotes an output',
    judging: checker(
      "open(sys.argv[3] + 'judgemessage.txt', 'w').write('wrong: ' + 'x' * (3 << 20))\nsys.exit(43)",
    ),
    expected: /^WA: wrong: x{100}/,
  },
  {
    title: 'a score of 3 MiB',
    judging: scored("' + '1' * (3 << 20) + '"),
    expected: IE('left files that cannot be read'),
  },
  {
    title: 'a message of 900 KiB',
    judging: leaves("open(message, 'w').write('x' * 900000)"),
    expected: /^AC: x{4096}$/,
  },
  {
    title: 'a message of bytes that are no text',
    judging: leaves("open(message, 'wb').write(bytes(range(256)) * 100)"),
    expected: /^AC: \0/,
  },
  {
    title: 'a message that is a link to the answer',
    judging: leaves('os.symlink(sys.argv[2], message)'),
    expected: NO_FILE('judgemessage.txt'),
  },
  {
    title: 'a message that is a pipe',
    judging: leaves('os.mkfifo(message)'),
    expected: NO_FILE('judgemessage.txt'),
  },
  {
    title: 'a message that is a folder',
    judging: leaves('os.mkdir(message)'),
    expected: NO_FILE('judgemessage.txt'),
  },
  {
    title: 'a score that is a link to a file of the checker',
    judging: inGroup(
      leaves("open(folder + 'x', 'w').write('0'); os.symlink('x', folder + 'score.txt')"),
    ),
    expected: NO_FILE('score.txt'),
  },
  {
    title: 'a share of a score that is a pipe',
    judging: inGroup(leaves("os.mkfifo(folder + 'score_multiplier.txt')")),
    expected: NO_FILE('score_multiplier.txt'),
  },
  {
    title: 'a message for the team that is a folder',
    judging: leaves("os.mkdir(folder + 'teammessage.txt')"),
    expected: NO_FILE('teammessage.txt'),
  },
  {
    title: 'a message with a hole',
    judging: leaves('os.truncate(os.open(message, os.O_CREAT | os.O_RDWR), 1 << 40)'),
    expected: IE('exited with 1'),
  },
  {
    title: 'a folder for messages that is moved away',
    judging: leaves("os.rename(folder, '/tmp/away'); os.symlink('/', folder[:-1])"),
    expected: /^(AC: $|IE: )/,
  },
  {
    title: 'a folder for messages that is closed',
    judging: leaves("open(message, 'w').write('seen'); os.chmod(folder, 0)"),
    expected: /^AC: seen$/,
  },
  {
    title: 'a score that is not a number',
    judging: scored('nan'),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'an infinite score',
    judging: scored('inf'),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'a score beyond all doubles',
    judging: scored('1e400'),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'a score of a million digits',
    judging: scored('1'.repeat(1000)),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'a score with a NUL',
    judging: scored('1\\x00'),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'a score behind more blanks than a message has',
    judging: scored("1' + ' ' * 4095 + '7junk"),
    expected: IE('left no number in score.txt'),
  },
  {
    title: 'points in what a program printed, behind another line break',
    program: "print('7\\rpoints 100', end='')",
    judging: prints("sys.stderr.write('read: ' + line + '\\npoints 0 partial\\n')"),
    expected: IE('exited with 7 and printed no points'),
  },
  {
    title: 'points in what a program printed, which its checker prints first',
    program: "print('points 100')",
    judging: prints("sys.stderr.write(line + 'points 0 partial\\n')"),
    expected: IE('exited with 7 and printed .points. twice'),
  },
  {
    title: 'points in what a program printed, which its checker quotes',
    program: "print('points 100')",
    judging: prints("sys.stderr.write('points 0 found:\\n' + line)"),
    expected: /^WA: points 0 found:\npoints 100\n$/,
  },
  {
    title: 'honest points',
    program: "print('points 100')",
    judging: prints("sys.stderr.write('points 2.5 found:\\n' + line)"),
    expected: /^AC: points 2.5 found:\npoints 100\n$/,
  },
  { title: 'points that are not a number', judging: points('nan'), expected: IE('exited with 7') },
  { title: 'points below 0', judging: points('-1'), expected: IE('exited with 7') },
  { title: 'points beyond all doubles', judging: points('1e999'), expected: IE('exited with 7') },
  { title: 'an honest score', judging: scored('2.5'), expected: /^AC: $/ },
];

const next = (code: string, passes = 3): Partial<Judging> => ({
  ...leaves(`path = folder + 'nextpass.in'\n${code}`),
  passes,
});
const PASSES: Case[] = [
  {
    title: 'passes without end',
    judging: next("open(path, 'w').write('input')", 5),
    expected: IE('asks for more passes'),
  },
  {
    title: 'a next input that is a link to the answer',
    judging: next('os.symlink(sys.argv[2], path)'),
    expected: NO_FILE('nextpass.in'),
  },
  {
    title: 'a next input that is a folder',
    judging: next('os.mkdir(path)'),
    expected: NO_FILE('nextpass.in'),
  },
  {
    title: 'a file for the next pass that is a link',
    judging: next("open(path, 'w').write('x'); os.symlink('nextpass.in', folder + 'state')"),
    expected: NO_FILE('state'),
  },
  {
    title: 'honest files in folders for the next pass',
    judging: next(`state = folder + 'deep/er/state'
if os.path.exists(state): assert open(state).read() == 'kept'
else: open(path, 'w').write('x'); os.makedirs(folder + 'deep/er'); open(state, 'w').write('kept')`),
    expected: /^AC: $/,
  },
  {
    title: 'a next input of 5 MiB',
    judging: next("open(path, 'w').write('x' * (5 << 20))"),
    expected: IE('left files that cannot be read'),
  },
  {
    title: '3,000 files for the next pass',
    judging: next("open(path, 'w').write('x')\nfor n in range(3000): open(folder + str(n), 'w')"),
    expected: IE('left files that cannot be read'),
  },
  {
    title: 'a name for the next pass that is not UTF-8',
    judging: next("open(path, 'w').write('x'); open(os.fsencode(folder) + b'\\xff', 'w')"),
    expected: IE('left files that cannot be read'),
  },
  {
    title: 'two names for the next pass that are the longest',
    judging: next(
      "open(path, 'w').write('x'); os.makedirs(folder + 'd' * 255, exist_ok=True); open(folder + 'd' * 255 + '/' + 'e' * 255, 'w')\nif len(os.listdir(folder)) < 2: sys.exit(1)",
    ),
    expected: IE('asks for more passes'),
  },
  {
    title: 'an honest second pass',
    judging: next("if open(sys.argv[1]).read() == 'input': open(path, 'w').write('second')"),
    expected: /^AC: $/,
  },
];

const talks = (code: string): Partial<Judging> => ({
  interactor: aJudge('python', `import os, sys\n${code}`),
});
const CLOSES = 'print(5, flush=True)\nos.close(1)\n';
/** It must not run out of time before its interactor ends, which costs it its start and no more. */
const SPINS = { ...LONG, cpu_time_ms: 5_000 };
const CLOSED_OUTPUTS: Case[] = [
  {
    title: 'a program that spins while its interactor has closed its output and waits',
    program: 'while True: pass',
    limits: { ...SHORT, cpu_time_ms: 100 },
    judging: talks(`${CLOSES}sys.exit(42 if sys.stdin.readline() else 43)`),
    expected: /^TLE: /,
  },
  {
    title: 'a program that spins, and an interactor that blames it for the end of its output',
    program: 'while True: pass',
    limits: { ...SHORT, cpu_time_ms: 100 },
    judging: talks(
      `sys.stdin.readline() or open(sys.argv[3] + 'judgemessage.txt', 'w').write('no guess')\nsys.exit(43)`,
    ),
    expected:
      /^TLE: the program exceeded its limit of CPU time before its interactor ended\nno guess$/,
  },
  {
    title: 'a program that closes its output, and spins when its interactor has found it wrong',
    program: 'import os, sys\nos.close(1)\nsys.stdin.read()\nwhile True: pass',
    limits: SPINS,
    judging: talks('sys.exit(42 if sys.stdin.readline() else 43)'),
    expected: /^WA: /,
  },
  {
    title:
      'a program whose first thread ends, and that spins when its interactor has found it wrong',
    program: `import ctypes, os, sys, threading
def work():
  os.close(1)
  sys.stdin.read()
  while True: pass
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)`,
    limits: SPINS,
    judging: talks('sys.exit(42 if sys.stdin.readline() else 43)'),
    expected: /^WA: /,
  },
  {
    title: 'a program that closes its output, and spins when its interactor has failed',
    program: 'import os, sys\nos.close(1)\nsys.stdin.read()\nwhile True: pass',
    limits: SPINS,
    judging: talks('sys.exit(42 if sys.stdin.readline() else 1)'),
    expected: /^IE: the interactor exited with 1/,
  },
  {
    title:
      'a program that closes its output, and runs out of memory when its interactor has failed',
    program:
      'import os, sys, time\nos.close(1)\nsys.stdin.read()\ntime.sleep(0.1)\nx = b"x" * 2**30',
    judging: talks('sys.exit(42 if sys.stdin.readline() else 1)'),
    expected: /^IE: the interactor exited with 1/,
  },
  {
    title: 'an honest interactor that closes its output',
    judging: talks(`${CLOSES}sys.exit(42 if sys.stdin.readline() == '5\\n' else 43)`),
    expected: /^AC: /,
  },
];

/** Uses more than half of its heap, and quotes what it reads. */
const QUOTING_CHECKER = (words: number) => `import java.util.*;
class Main {
  public static void main(String[] args) throws Exception {
    List<String> words = new ArrayList<>();
    for (int n = 0; n < ${words}; n++) words.add("token" + n);
    var output = new String(java.nio.file.Files.readAllBytes(java.nio.file.Path.of(args[1]))).trim();
    if (output.equals("answer")) System.exit(0);
    System.err.println("wrong answer: found " + output);
    System.exit(1);
  }
}`;
const quoting = (words: number): Partial<Judging> => ({
  checker: aJudge('java', QUOTING_CHECKER(words), {
    protocol: 'testlib',
    limits: { memory_bytes: 256 * 2 ** 20 },
  }),
});
const OUT_OF_MEMORY = 'java.lang.OutOfMemoryError: Java heap space';

const QUOTES: Case[] = [
  {
    title: 'a program that prints what a runtime says when its memory runs out',
    program: `print("${OUT_OF_MEMORY}")`,
    judging: quoting(1_000_000),
    expected: /^WA: wrong answer: found java\.lang\.OutOfMemoryError/,
  },
  {
    title: 'a checker whose memory does run out',
    program: 'print("answer")',
    judging: quoting(100_000_000),
    expected: IE('reports a failure of its own|exceeded its limit of memory'),
  },
  {
    title: 'a right answer for the checker that quotes',
    program: 'print("answer")',
    judging: quoting(1_000_000),
    expected: /^AC: /,
  },
];

all([...QUOTES, ...CLOSED_OUTPUTS, ...LIMITS_OF_CHECKERS, ...LEFT_BY_CHECKERS, ...PASSES]);
