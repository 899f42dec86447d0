/** The basics; `java.test.ts` has what is Java's own. */
import { type CorpusProgram, MiB, SHORT } from '../corpus_program.ts';

const main = (body: string) =>
  `import java.util.*; class Main { public static void main(String[] args) throws Exception { ${body} } }`;

export const programs: readonly CorpusProgram[] = [
  { name: 'hello', code: main('System.out.println("hello");'), verdict: 'AC', stdout: 'hello\n' },
  {
    name: 'sum of stdin',
    code: main(
      'var in = new Scanner(System.in); long s = 0; while (in.hasNext()) s += in.nextLong(); System.out.println(s);',
    ),
    stdin: '19 23\n-2',
    verdict: 'AC',
    stdout: '40\n',
  },
  {
    name: 'arguments',
    code: main('System.out.print(Arrays.toString(args));'),
    args: ['a b', '', 'é', '-x'],
    verdict: 'AC',
    stdout: '[a b, , é, -x]',
  },
  { name: 'exit code', code: main('System.exit(42);'), verdict: 'RE', exit_code: 42 },
  {
    name: 'stderr',
    code: main('System.out.println("out"); System.err.println("err");'),
    verdict: 'AC',
    stdout: 'out\n',
    stderr: 'err\n',
  },
  {
    name: 'a stack that follows the memory limit',
    code: 'class Main { static int f(int n) { return n == 0 ? 0 : 1 + f(n - 1); } public static void main(String[] a) { System.out.println(f(400000)); } }',
    limits: { memory_bytes: 512 * MiB },
    verdict: 'AC',
    stdout: '400000\n',
  },
  {
    name: 'a stack of its own limit',
    code: 'class Main { static int f(int n) { return n == 0 ? 0 : 1 + f(n - 1); } public static void main(String[] a) { System.out.println(f(400000)); } }',
    limits: { memory_bytes: 512 * MiB, stack_bytes: 2 * MiB },
    verdict: 'RE',
    stderr: /java\.lang\.StackOverflowError/,
  },
  {
    name: 'runtime error',
    code: main('throw new IllegalStateException("why");'),
    verdict: 'RE',
    exit_code: 1,
    stderr: /^Exception in thread "main" java\.lang\.IllegalStateException: why\n/,
  },
  {
    name: 'UTF-8',
    code: main('System.out.print("grüße 日本 😀" + "é".length());'),
    verdict: 'AC',
    stdout: 'grüße 日本 😀1',
  },
  { name: 'endless loop', code: main('for (;;);'), limits: SHORT, verdict: 'TLE' },
  {
    name: 'too much memory',
    code: main('var l = new ArrayList<byte[]>(); for (;;) l.add(new byte[1 << 20]);'),
    verdict: 'MLE',
  },
  {
    name: 'arrays that leave half of their regions untouched',
    code: main('var l = new ArrayList<byte[]>(); for (;;) l.add(new byte[1 << 20]);'),
    limits: { memory_bytes: 512 * MiB },
    verdict: 'MLE',
    stderr: /OutOfMemoryError: Java heap space/,
  },
  {
    name: 'a list that grows',
    code: main('var l = new ArrayList<Object>(); for (;;) l.add("");'),
    verdict: 'MLE',
  },
  {
    name: 'many small objects',
    code: `class Main { Main next; int[] value = new int[4]; public static void main(String[] a) {
      Main all = null; for (;;) { Main one = new Main(); one.next = all; all = one; } } }`,
    limits: { memory_bytes: 160 * MiB, cpu_time_ms: 15_000 },
    verdict: 'MLE',
  },
  {
    name: 'a message about memory, and little memory used',
    code: main('throw new OutOfMemoryError("Java heap space");'),
    limits: { memory_bytes: 96 * MiB },
    verdict: 'RE',
    exit_code: 1,
    stderr: /OutOfMemoryError: Java heap space/,
  },
  {
    name: 'too much output',
    code: main('for (;;) System.out.println("0123456789");'),
    verdict: 'OLE',
  },
];
