// needs: java
/** The front says what javac says, letter for letter, and leaves the classes that javac leaves. */
import { execFile, spawn } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { findToolchains } from '../../src/languages/common/toolchains.ts';

const SOURCES = join(import.meta.dirname, '../../src/languages/java');
const exec = promisify(execFile);
/** In a box, the manifest of the front's archive does this. */
const EXPORTS = ['api', 'main'].flatMap((name) => [
  '--add-exports',
  `jdk.compiler/com.sun.tools.javac.${name}=ALL-UNNAMED`,
]);
const env = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' };

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('');

/** One more than are kept apart. */
const CROWD = `class A { public static void main(String[] a) {} }\n${lines(8, (i) => `class B${i} {}\n`)}`;
const PROGRAMS: Record<string, string> = {
  few: CROWD.replace(/class B7 .*\n/, ''),
  crowd: CROWD,
  'of a package': 'package p; class A { class $B {} public static void main(String[] a) {} }',
  case: 'class A { public static void main(String[] a) {} } class a {}',
  letter: 'class \u00c4 { public static void main(String[] a) {} }',
  'longest name': `class ${'A'.repeat(120)} { public static void main(String[] a) {} }`,
  'long name': `class ${'A'.repeat(121)} { public static void main(String[] a) {} }`,
  well: 'public class Main { record R(int a) {} enum E { A { int f() { return 1; } }; int f() { return 0; } } public static void main(String[] a) { Runnable r = () -> System.out.println(new R(1)); r.run(); } }',
  types:
    'public class Main { public static void main(String[] a) { int x = "s"; foo(); String s = 1.5; } }',
  warnings:
    'import java.util.*; public class Main { void f() { List l = new ArrayList(); l.add("x"); new Date(1, 2, 3); } }',
  unfinished: 'package p.q; public class Main { void f() { }',
  classes:
    'class A extends B {} interface I { void m(); } public class Main implements I { int f() { } static final int X = 1; void g() { X = 2; throw new Exception(); } }',
  text: "public class Main { String s = \"unclosed; char c = 'ab'; int \\u00e9 = 2; }",
  generics:
    '@Deprecated @Foo public class Main { @Override public String toSTring() { return null; } <T extends Comparable<T>> void f(T t) { f(new Object()); switch (1) { case 1: case 1: } } }',
  flow: 'public class Main { static int f(int n) { return n; } static int f(int m) { return m; } public static void main(String... a) { var x; final int y; y++; for (;;); int z; } }',
  module: 'module foo { }',
  modern:
    'package a.b; import static java.lang.Math.*; public class Main { record R(int a, int a) {} sealed interface S permits T {} void f() { System.out.println(max(1, "a")); Object o = 1; if (o instanceof String s) {} s.length(); } }',
  'a hundred errors and more': `public class Main {\n${lines(150, (i) => `int x${i} = "no";\n`)}}`,
  letters: 'public class Main { String s = "日本 é 😀; }\n',
  imports:
    'import java.utl.*; import java.util.Lisst; import static java.lang.Math.nothing; public class Main {}',
  'code too large': `public class Main { void f() { int x = 0; ${'x = x + 1234567;'.repeat(9000)} } }`,
  lambda:
    'import java.util.function.*; public class Main { Function<String> f = x -> y; Supplier<Integer> s = () -> "a"; }',
};

const PACKED = new Set(['crowd', 'of a package', 'case', 'letter', 'long name']);

/** A short run of a JVM takes half of the CPU time with these. */
const fast = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
const fastTool = fast.map((flag) => `-J${flag}`);
const { toolchains } = await findToolchains();
const bin = join(toolchains.get('java')!.at, 'bin');
const folder = t.testdir();
const classes = join(folder, 'front');
const sources = ['Compile', 'MainMethod', 'WarmUp'].map((name) => join(SOURCES, `${name}.java`));
const strict = ['-Xlint:all', '-Werror'];
/** The classes of javac as they are in memory: most of what a start of it loads. */
const javac_archive = join(folder, 'javac.jsa');
const first = [...fastTool, `-J-XX:ArchiveClassesAtExit=${javac_archive}`];
await exec(join(bin, 'javac'), [...first, ...strict, ...EXPORTS, '-d', classes, ...sources]);
const javacTool = [...fastTool, `-J-XX:SharedArchiveFile=${javac_archive}`, '-J-Xlog:disable'];

t.test('as javac', async (t) => {
  const resident = serve(join(bin, 'java'), [
    ...fast,
    ...EXPORTS,
    '-cp',
    classes,
    'Compile',
    '--serve',
    '0',
  ]);
  t.teardown(() => resident.end());

  const run = async (file: string, args: string[], cwd: string) => {
    const failed = (error: Ended) => error;
    const ended: Ended = await exec(join(bin, file), args, { env, cwd }).catch(failed);
    return { code: ended.code ?? 0, stdout: ended.stdout, stderr: ended.stderr };
  };

  for (const [name, source] of Object.entries(PROGRAMS)) {
    const cwd = join(folder, name.replaceAll(' ', '_'));
    await mkdir(cwd);
    await writeFile(join(cwd, 'Main.java'), source);
    const javac = await run(
      'javac',
      [...javacTool, '-encoding', 'UTF-8', '-d', 'plain', 'Main.java'],
      cwd,
    );
    const answer = await resident.compile(source);
    t.equal(answer.said, javac.stderr, `${name}: the same words`);
    t.equal(answer.status, javac.code, `${name}: the same end`);
    if (answer.status !== 0) continue;
    await mkdir(join(cwd, 'fronts'));
    for (const [file, bytes] of answer.files) await writeFile(join(cwd, 'fronts', file), bytes);
    const is_packed = answer.files.has('program.jar');
    t.equal(is_packed, PACKED.has(name), `${name}: in an archive or apart`);
    if (is_packed) {
      await exec(join(bin, 'jar'), [...fastTool, '-xf', 'program.jar'], {
        cwd: join(cwd, 'fronts'),
      });
      await rm(join(cwd, 'fronts/program.jar'));
    }
    const { stdout: different } = await exec('diff', ['-r', 'plain', 'fronts'], { cwd }).catch(
      (error: Ended) => error,
    );
    t.equal(different, '', `${name}: the same classes`);
  }

  for (const name of ['well', 'types', 'crowd'] as const) {
    const cwd = join(folder, name);
    const once = await run(
      'java',
      [...fast, ...EXPORTS, '-cp', classes, 'Compile', 'Main.java', 'once'],
      cwd,
    );
    const answer = await resident.compile(PROGRAMS[name]!);
    t.strictSame(once, { code: answer.status, stdout: answer.main, stderr: answer.said });
    if (once.code !== 0) continue;
    t.strictSame((await readdir(join(cwd, 'once'))).sort(), [...answer.files.keys()].sort());
    for (const [file, bytes] of answer.files)
      t.ok(bytes.equals(await readFile(join(cwd, 'once', file))), `${name}: the same ${file}`);
  }
});

t.test('the same twice, whatever came between', async (t) => {
  const resident = serve(join(bin, 'java'), [
    ...fast,
    ...EXPORTS,
    '-cp',
    classes,
    'Compile',
    '--serve',
    '1',
  ]);
  t.teardown(() => resident.end());
  const first = new Map<string, string>();
  for (const round of [1, 2]) {
    for (const [name, source] of Object.entries(PROGRAMS)) {
      const { said, status, main, files } = await resident.compile(source);
      const spelled = [...files].map(([file, bytes]) => [file, bytes.toString('base64')]);
      const all = JSON.stringify([said, status, main, spelled]);
      if (round === 1) first.set(name, all);
      else t.equal(all === first.get(name), true, name);
    }
  }
});

function filesOf(bytes: Buffer): Map<string, Buffer> {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 4 + parts.at(-1)!.length)
    parts.push(bytes.subarray(at + 4, at + 4 + bytes.readUInt32BE(at)));
  const pairs = parts.flatMap((part, i) => (i % 2 ? [] : [[part.toString(), parts[i + 1]!]]));
  return new Map(pairs as [string, Buffer][]);
}

type Ended = { code?: unknown; stdout: string; stderr: string };

/** A resident compiler without a box, spoken to as the executor speaks to its own. */
function serve(java: string, args: string[]) {
  const child = spawn(java, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  let received = Buffer.alloc(0);
  let arrived = Promise.withResolvers<void>();
  child.stdout.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    arrived.resolve();
    arrived = Promise.withResolvers();
  });
  const take = async (count: number) => {
    while (received.length < count) await arrived.promise;
    const taken = received.subarray(0, count);
    received = received.subarray(count);
    return taken;
  };
  const warm = take(1);
  return {
    async compile(source: string) {
      await warm;
      const bytes = Buffer.from(source);
      const head = Buffer.alloc(4);
      head.writeUInt32BE(bytes.length);
      child.stdin.write(Buffer.concat([head, bytes]));
      const answer = await take((await take(4)).readUInt32BE(0));
      const said = 8 + answer.readUInt32BE(4);
      const main = said + 4 + answer.readUInt32BE(said);
      return {
        status: answer.readUInt32BE(0),
        said: answer.toString('utf8', 8, said),
        main: answer.toString('utf8', said + 4, main),
        files: filesOf(answer.subarray(main)),
      };
    },
    end: () => new Promise((resolve) => child.once('exit', resolve).stdin.end()),
  };
}
