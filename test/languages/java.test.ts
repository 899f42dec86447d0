// needs: java
import t from 'tap';
import { DEFAULT_POLICY, limitsFor } from '../../src/domain/limits.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';

const MiB = 1024 * 1024;
const main = (body: string) =>
  `public class Main { public static void main(String[] args) throws Exception { ${body} } }`;

/** Each class says which it is, and each is loaded. */
function classes(count: number): string {
  const others = Array.from({ length: count - 1 }, (_, n) => n + 1);
  const words = others.map((n) => ` + C${n}.WORD`).join('');
  const texts = others.map(
    (n) => `class C${n} { static final String WORD = String.valueOf(" ${n}".toCharArray()); }`,
  );
  return `${main(`System.out.print(0${words === '' ? '' : ' + ""'}${words});`)}\n${texts.join('\n')}`;
}

for (const way of ['resident', 'plain'] as const) {
  t.test(`Java, by a ${way} compiler`, async (t) => {
    const switches = { ...PLAIN, java_compiler: way === 'resident' };
    const { run, executor } = await anExecutor(t, {
      languages: ['java'],
      switches,
      standing_boxes: 2,
    });
    await executor.prepared();
    const java = async (code: string, more = {}) => {
      const outcome = await run('java', code, more);
      t.match(outcome.evidence['compile'], { by: way });
      return outcome;
    };

    t.test('compiles and runs', async (t) => {
      const code = main(
        'System.out.print(args.length + args[1] + new String(System.in.readAllBytes()));',
      );
      const outcome = await java(code, { args: ['x', 'é y'], stdin: 'in é' });
      t.match(outcome, { verdict: 'AC', exit_code: 0, stdout: '2é yin é', stderr: '' });
      t.match(outcome.compile, { exit_code: 0, cached: false });
      t.ok(outcome.compile!.cpu_time_us! > 0);
      t.equal((await run('java', code)).compile!.cached, true);
    });

    t.test('the main class may have any name, place, visibility and company', async (t) => {
      const says = 'public static void main(String[] a) { System.out.print(';
      const rows: [string, string, string][] = [
        ['a public class of another name', `public class Zebra { ${says}1); } }`, '1'],
        ['a class that is not public', `class small { ${says}2); } }`, '2'],
        ['a package', `package a.b.c; public class X { ${says}X.class.getName()); } }`, 'a.b.c.X'],
        [
          'a package with other letters',
          `package \\u0061é.日; class A {} class X { ${says}X.class.getName()); } }`,
          'aé.日.X',
        ],
        [
          'several classes, the last has it',
          `class A {} interface B {} class C { ${says}3); } }`,
          '3',
        ],
        ['two have it: the first', `class Q { ${says}4); } } class A { ${says}5); } }`, '4'],
        [
          'two public classes cannot be, but one anywhere',
          `class A { } public class B { ${says}6); } }`,
          '6',
        ],
        [
          'an interface',
          `interface I { static void main(String[] a) { System.out.print(7); } }`,
          '7',
        ],
        ['an enum', `enum E { X; ${says}X); } }`, 'X'],
        ['a record', `record R(int x) { ${says}new R(8)); } }`, 'R[x=8]'],
        ['inherited', `class A extends B {} class B { ${says}"from B"); } }`, 'from B'],
        [
          'varargs, final, strictfp order',
          'class A { final static public void main(final String... a) { System.out.print(9); } }',
          '9',
        ],
        [
          'not what only looks like one',
          `class A { static void main(int[] a) {} int main; } class B { ${says}10); } }`,
          '10',
        ],
        [
          'not one in a comment or a text',
          `/* class A { ${says}0); } } */ class B { String s = "class C { public static void main(String[] a)"; ${says}11); } }`,
          '11',
        ],
        [
          'not one of a nested class',
          `class A { static class N { ${says}0); } } } class B { ${says}12); } }`,
          '12',
        ],
        ['escapes and other letters', `class \\u0041é日 { ${says}13); } }`, '13'],
        ['a dollar', `class $a$b { ${says}14); } }`, '14'],
      ];
      for (const [name, code, stdout] of rows) {
        t.match(await java(code), { verdict: 'AC', stdout, stderr: '' }, name);
      }
    });

    t.test('any number of classes, compiled and from the cache', async (t) => {
      for (const count of [1, 8, 9, 40]) {
        const stdout = Array.from({ length: count }, (_, n) => n).join(' ');
        t.match(await java(classes(count)), { verdict: 'AC', stdout, stderr: '' }, `${count}`);
        const again = await run('java', classes(count));
        t.match(again, { verdict: 'AC', stdout, stderr: '', compile: { cached: true } });
      }
    });

    t.test('classes whose names differ in their case alone', async (t) => {
      const code = `${main('System.out.print(new a().b() + new A().b());')}
class a { int b() { return 1; } }
class A { int b() { return 20; } }`;
      t.match(await java(code), { verdict: 'AC', stdout: '21', stderr: '' });
    });

    t.test('without a main it cannot run, without a class it cannot be compiled', async (t) => {
      const none = await java('class A { void f() {} } class B {}');
      t.match(none, { verdict: 'RE', exit_code: 1 });
      t.match(none.stderr, /Main method not found in class A/);
      const nothing = await java('// nothing\n');
      t.match(nothing, { verdict: 'CE', stderr: 'error: no class declared in source file\n' });
    });

    t.test('refused: the compiler speaks as javac does', async (t) => {
      const outcome = await java('public class Foo {\n  int f() { return "a"; }\n}\n');
      t.match(outcome, { verdict: 'CE', exit_code: null, cpu_time_us: null, stdout: '' });
      t.equal(outcome.compile!.exit_code, 1);
      t.equal(
        outcome.stderr,
        [
          'Main.java:2: error: incompatible types: String cannot be converted to int',
          '  int f() { return "a"; }',
          '                   ^',
          '1 error',
          '',
        ].join('\n'),
      );
    });

    t.test('exceptions, exit codes, signals', async (t) => {
      const throws = await java(main('throw new IllegalStateException("why");'));
      t.match(throws, { verdict: 'RE', exit_code: 1 });
      t.equal(
        throws.stderr,
        'Exception in thread "main" java.lang.IllegalStateException: why\n\tat Main.main(Main.java:1)\n',
      );
      t.match(await java(main('System.exit(7);')), { verdict: 'RE', exit_code: 7 });
      t.match(await java(main('Runtime.getRuntime().halt(0);')), { verdict: 'AC' });
      const deep = await java(
        'class A { static int f(int n) { return f(n + 1) + 1; } public static void main(String[] a) { f(0); } }',
      );
      t.match(deep, { verdict: 'RE', exit_code: 1 });
      t.match(deep.stderr, /^Exception in thread "main" java\.lang\.StackOverflowError/);
    });

    t.test('limits', async (t) => {
      const spins = await java(main('for (;;);'), { limits: { cpu_time_ms: 400 } });
      t.match(spins, { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL' });
      const eats = await java(
        main('var l = new java.util.ArrayList<byte[]>(); for (;;) l.add(new byte[1 << 20]);'),
      );
      t.match(eats, { verdict: 'MLE', exit_code: 1 });
      t.match(eats.stderr, /OutOfMemoryError: Java heap space/);
      const talks = 'for (int i = 0; i < 3_000; i++) System.err.println("0123456789".repeat(4));';
      const talked = await java(
        main(
          `${talks} var l = new java.util.ArrayList<byte[]>(); for (;;) l.add(new byte[1 << 20]);`,
        ),
      );
      t.match(talked, { verdict: 'MLE', exit_code: 1, stderr_truncated: true });
      t.notMatch(talked.stderr, /OutOfMemoryError/);
      const writes = await java(main('for (;;) System.out.println("0123456789");'));
      t.match(writes, { verdict: 'OLE', exit_code: 137 });
      const caught = await java(
        main(
          'try { byte[] b = new byte[1 << 30]; } catch (OutOfMemoryError e) { System.out.print("caught"); }',
        ),
      );
      t.match(caught, { verdict: 'AC', stdout: 'caught' });
    });

    t.test('the heap is sized to the memory limit, and the limit holds it', async (t) => {
      const heap = main('System.out.print(Runtime.getRuntime().maxMemory() >> 20);');
      const small = Number((await java(heap)).stdout);
      t.ok(small >= 140 && small <= 200, `${small} MiB of 256`);
      const fills = main(
        'var l = new java.util.ArrayList<long[]>(); long max = Runtime.getRuntime().maxMemory(); for (long n = 0; n < max * 8 / 10; n += 1 << 15) l.add(new long[1 << 12]); System.out.print(l.size() > 0);',
      );
      t.match(await java(fills), { verdict: 'AC', stdout: 'true' });
      const large = await run('java', heap, { limits: { memory_bytes: 512 * MiB } });
      t.ok(Number(large.stdout) > 1.9 * small, `${large.stdout} MiB of 512`);
    });

    t.test('threads up to the limit, and beyond it an error that is not memory', async (t) => {
      const threads = main(
        'Thread[] ts = new Thread[50]; int[] n = {0}; for (int i = 0; i < 50; i++) { ts[i] = new Thread(() -> { synchronized (n) { n[0]++; } try { Thread.sleep(50); } catch (Exception e) {} }); ts[i].start(); } for (Thread t : ts) t.join(); System.out.print(n[0]);',
      );
      t.match(await java(threads), { verdict: 'AC', stdout: '50' });
      const many = main(
        'for (;;) { var t = new Thread(() -> { try { Thread.sleep(60000); } catch (Exception e) {} }); ' +
          't.setDaemon(true); t.start(); }',
      );
      const outcome = await java(many, { limits: { wall_time_ms: 30_000 } });
      t.match(outcome.stderr, /unable to create native thread/);
      t.not(outcome.verdict, 'MLE');
    });
  });
}

t.test('the stack of a run with much memory', async (t) => {
  const { bounds, ...policy } = DEFAULT_POLICY;
  const wide = { min: MiB, max: 8192 * MiB };
  const { run, toolchains } = await anExecutor(t, {
    languages: ['java'],
    switches: PLAIN,
    policy: { ...policy, bounds: { ...bounds, memory_bytes: wide, stack_bytes: wide } },
  });
  const deep = `class Main { static int f(int n) { return f(n + 1) + 1; }
public static void main(String[] a) { try { f(0); } catch (StackOverflowError e) { System.out.print("caught"); } } }`;
  const limits = { memory_bytes: 1024 * MiB, cpu_time_ms: 30_000 };
  t.match(await run('java', deep, { limits }), { verdict: 'AC', stdout: 'caught', stderr: '' });
  const large = { memory_bytes: 4096 * MiB, stack_bytes: 2048 * MiB };
  const starts = await run('java', main('System.out.print(1);'), { limits: large });
  t.match(starts, { verdict: 'AC', stdout: '1', stderr: '' }, 'a JVM takes no more than 1 GiB');

  const flagOf = (memory: number, stack?: number) => {
    const asked = { memory_bytes: memory * MiB, ...(stack && { stack_bytes: stack * MiB }) };
    const all = {
      run: policy.run,
      compile: policy.compile,
      bounds: { ...bounds, memory_bytes: wide },
    };
    const { language, run } = toolchains.get('java')!;
    const seen = limitsFor(language.needs, asked, all);
    const parts = { artefact: 'a', entry: 'Main', source: 'Main.java', has_files: false, args: [] };
    const { argv } = run({ ...parts, limits: seen, fails_at_full_heap: false });
    return Number.parseInt(argv.find((arg) => arg.startsWith('-Xss'))!.slice(4), 10) / 1024;
  };
  t.equal(flagOf(256), 32);
  for (const memory of [512, 1024, 2048, 4096])
    t.ok(flagOf(memory) * 7.5 < memory, `${memory} MiB`);
  t.equal(flagOf(2048, 512), 512, 'a request has what it asks for');
});

t.test('any number of classes, without a box', async (t) => {
  const { run, executor } = await anExecutor(t, {
    languages: ['java'],
    switches: PLAIN,
    isolation: 'rlimits',
  });
  await executor.prepared();
  for (const count of [1, 8, 9]) {
    const stdout = Array.from({ length: count }, (_, n) => n).join(' ');
    for (const _ of ['compiled', 'from the cache'])
      t.match(await run('java', classes(count)), { verdict: 'AC', stdout, stderr: '' });
  }
});
