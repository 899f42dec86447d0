// needs: java
/** Resident compilers: which account has one, when it ends, and that its end is never a verdict. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { COMPILE_DEFAULTS, DEFAULT_POLICY } from '../../src/domain/limits.ts';
import { bootId } from '../../src/executor/compile_cache.ts';
import { openCompilers } from '../../src/executor/compilers.ts';
import { ResidentCompiler } from '../../src/languages/java/resident_compiler.ts';
import { ResidentCompilers } from '../../src/languages/java/resident_compilers.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';
import { LIMITS } from '../executor/box.ts';

const WITH_RESIDENTS: Parameters<typeof anExecutor>[1] = {
  languages: ['java'],
  switches: { ...PLAIN, java_compiler: true },
  standing_boxes: 2,
};
const NEVER = new AbortController().signal;
const hello = (n: number) =>
  `class A { public static void main(String[] a) { System.out.print(${n}); } }`;

/** Overflows the compiler's stack. */
const DEEP = `class A { int f() { return ${'('.repeat(30_000)}1${')'.repeat(30_000)}; } public static void main(String[] a) {} }`;

/** Fills the compiler's heap. */
const HUGE = `class A { static final String S0 = "${'x'.repeat(1_000)}";\n${Array.from({ length: 30 }, (_, i) => `static final String S${i + 1} = S${i} + S${i};`).join('\n')} }`;

/** Its class file has 32 texts of 64,000 bytes: 2 MB from a short source. */
const LARGE = `class A { static final String S0 = "${'x'.repeat(1_000)}", S = ${Array(64).fill('S0').join(' + ')};
${Array.from({ length: 32 }, (_, i) => `String s${i} = S + ${i};`).join('\n')}
public static void main(String[] a) { System.out.print(9); } }`;

/** The compiler repeats the code of each finally, and so twice as much on each level. */
const ENDLESS = `class A { static int n; static void f() { ${'try { n++; } finally { '.repeat(30)}n--;${' }'.repeat(30)} } }`;

t.test('residents', async (t) => {
  const { run, executor, faults } = await anExecutor(t, WITH_RESIDENTS);
  await executor.prepared();
  const way = async (code: string, account_id: string) => {
    const { evidence, stdout } = await run('java', code, { account_id });
    return [(evidence['compile'] as { by: string }).by, stdout];
  };

  t.test('an account keeps its own; another gets the spare', async (t) => {
    t.strictSame(await way(hello(1), 'alice'), ['resident', '1']);
    t.strictSame(await way(hello(2), 'alice'), ['resident', '2']);
    await executor.prepared();
    t.strictSame(await way(hello(1), 'bob'), ['plain', '1'], 'until it asks, one is enough');
    await executor.prepared();
    t.strictSame(await way(hello(2), 'bob'), ['resident', '2'], 'and compiles for itself');
  });

  t.test('without a spare the plain compiler answers, and room is made', async (t) => {
    t.strictSame(await way(hello(3), 'carol'), ['plain', '3']);
    await executor.prepared();
    t.strictSame(await way(hello(4), 'carol'), ['resident', '4']);
  });

  t.test('no words of a source end it', async (t) => {
    const words = 'An exception has occurred in the compiler (17). java.lang.OutOfMemoryError';
    for (const rest of ['int x = s;', '(', 'Object o = new StackOverflowError(s) + ;']) {
      const code = `class A { String s = "${words} java.lang.StackOverflowError"; ${rest} }`;
      const { verdict, stderr, evidence } = await run('java', code, { account_id: 'carol' });
      t.strictSame([verdict, (evidence['compile'] as { by: string }).by], ['CE', 'resident']);
      t.match(stderr, /^Main\.java:1: error: /);
      t.notMatch(stderr, /exceeded its limit/);
    }
    t.strictSame(await way(hello(6), 'carol'), ['resident', '6']);
  });

  t.test('one that breaks is not used again, and its account does not see it break', async (t) => {
    const broken = await run('java', DEEP, { account_id: 'carol' });
    t.match(broken, { verdict: 'CE', evidence: { compile: { by: 'plain' } } });
    t.equal(broken.stderr, 'The compiler exceeded its limit of 8 MiB of stack.\n');
    await executor.prepared();
    t.strictSame(await way(hello(5), 'carol'), ['plain', '5'], 'nor does it get a spare at once');
    t.strictSame(await way(hello(5), 'dave'), ['resident', '5'], 'which is there for others');
  });

  t.test('the pieces of a large program are joined once', async (t) => {
    const { concat } = Buffer;
    let joined_bytes = 0;
    t.teardown(() => Object.assign(Buffer, { concat }));
    Buffer.concat = (list, length) => {
      const whole = concat(list, length);
      joined_bytes += whole.length;
      return whole;
    };
    t.strictSame(await way(LARGE, 'dave'), ['resident', '9']);
    // Once as pieces of the launcher's stream, and once as an answer; joined at each piece they would be 30 MB.
    t.ok(joined_bytes < 8_000_000, `${joined_bytes} bytes`);
  });

  t.test('more at once than it takes turn by turn', async (t) => {
    const codes = Array.from({ length: 8 }, (_, i) => hello(100 + i));
    const outputs = await Promise.all(codes.map((code) => way(code, 'dave')));
    t.strictSame(
      outputs.map(([, stdout]) => stdout),
      codes.map((_, i) => String(100 + i)),
    );
    t.ok(outputs.some(([by]) => by === 'resident'));
    t.ok(outputs.some(([by]) => by === 'plain'));
  });

  t.test('a cancelled request rejects, and the next is served', async (t) => {
    const abort = new AbortController();
    abort.abort(new Error('gone'));
    const gone = run('java', hello(200), { account_id: 'dave', signal: abort.signal });
    await t.rejects(gone, { name: 'SandboxFault', kind: 'cancelled' });
    t.strictSame(await way(hello(201), 'dave'), ['resident', '201']);
  });
  t.strictSame(faults, []);
});

/** A hundred errors, and each quotes a line of a thousand bytes. */
const WORDY = `class A {\n${`  int x${'y'.repeat(990)} = z;\n`.repeat(100)}}`;

/** Of a worker whose compiles may print so much. */
const printing = (stderr_bytes: number) => ({
  policy: { ...DEFAULT_POLICY, compile: { ...PATIENT_COMPILE, stderr_bytes } },
});
const PATIENT_COMPILE = { ...COMPILE_DEFAULTS, cpu_ms: 60_000, wall_ms: 300_000 };

t.test('the limit of a compile’s output holds by either compiler', async (t) => {
  const resident = await anExecutor(t, { ...WITH_RESIDENTS, ...printing(5_000) });
  const plain = await anExecutor(t, { ...WITH_RESIDENTS, ...printing(5_000), switches: PLAIN });
  await resident.executor.prepared();
  await plain.executor.prepared();
  const [fast, slow] = [await resident.run('java', WORDY), await plain.run('java', WORDY)];
  t.match(fast.evidence, { compile: { by: 'resident' } });
  t.match(slow, { verdict: 'CE', stderr_truncated: true, evidence: { compile: { by: 'plain' } } });
  t.equal(slow.stderr.length, 5_000);
  t.equal(fast.stderr, slow.stderr);
  t.equal(fast.stderr_truncated, slow.stderr_truncated);
});

t.test(
  'it keeps one byte more than the limit, and no worker with a higher one asks it',
  async (t) => {
    const compilers = await residents(t, { idle_ms: 60_000 });
    t.ok(await compilers.warmed());
    const { answer } = await compilers.compile('alice', Buffer.from(WORDY), NEVER);
    t.equal(answer!.said.length, COMPILE_DEFAULTS.stderr_bytes + 1);
    const more = printing(COMPILE_DEFAULTS.stderr_bytes + 1);
    const { run, executor, toolchains } = await anExecutor(t, { ...WITH_RESIDENTS, ...more });
    const boxes = ({ policy }: ReturnType<typeof printing>) =>
      toolchains.get('java')!.compiler!.standing_boxes!(() => true, policy.compile);
    t.ok(boxes(printing(COMPILE_DEFAULTS.stderr_bytes)) > 0);
    t.equal(boxes(more), 0);
    await executor.prepared();
    t.match(await run('java', hello(1)), { evidence: { compile: { by: 'plain' } } });
  },
);

t.test('its CPU time is what its group used', async (t) => {
  const { run, executor } = await anExecutor(t, WITH_RESIDENTS);
  await executor.prepared();
  const { compile } = await run('java', hello(1));
  t.ok(compile!.cpu_time_us! > 500 && compile!.cpu_time_us! < 2_000_000, `${compile!.cpu_time_us}`);
  t.equal(compile!.memory_peak_bytes, null);
  const again = await run('java', hello(2));
  t.ok(again.compile!.cpu_time_us! < 2_000_000);
});

t.test('no answer writes outside its program', async (t) => {
  const { sandbox, toolchains } = await anExecutor(t, { languages: ['python'], switches: PLAIN });
  const lists = {
    good: [['A.class'], ['A$1_b.class', 'program.jar']],
    bad: [
      ['../x.class'],
      ['/x.class'],
      ['a/b.class'],
      ['..'],
      [''],
      ['x'],
      ['A.class\n'],
      ['A.class', 'A.class'],
      [],
    ],
  };
  const many = Array.from({ length: 9 }, (_, i) => `A${i}.class`);
  /** Says that it is warm, reads one request, and answers with files of these names. */
  const answers = async (names: string[]) => {
    const script = `import os, struct
part = lambda text: struct.pack(">I", len(text)) + text
answer = struct.pack(">I", 0) + part(b"") + part(b"A")
for name in ${JSON.stringify(names)}: answer += part(name.encode()) + part(b"x")
os.write(1, b"W"); os.read(0, 100); os.write(1, part(answer)); os.read(0, 100)`;
    const box = await sandbox.open({
      ...{ argv: [toolchains.get('python')!.at, '-c', script], env: {}, profile: 'python' },
      ...{ files: [], stdin: new Uint8Array(), load: [], limits: LIMITS },
    });
    const compiler = new ResidentCompiler(box);
    t.teardown(() => compiler.end());
    const { answer } = await compiler.compile(Buffer.from('class A {}'), NEVER);
    return answer && [...answer.files.keys()];
  };
  for (const names of [...lists.good, many.slice(1)]) {
    const paths = names.map((name) => `program.classes/${name}`);
    t.strictSame(await answers(names), paths);
  }
  for (const names of [...lists.bad, many]) t.equal(await answers(names), null, `${names[0]}`);
});

type Residents = {
  idle_ms: number;
  quiet_ms?: number;
  failures?: number;
  log?: (message: string) => void;
};

async function residents(t: Test, options: Residents) {
  const { idle_ms, quiet_ms = 60_000, failures = 0, log = (message) => t.fail(message) } = options;
  let left = failures;
  const { sandbox, cache, toolchains } = await anExecutor(t, {
    languages: ['java'],
    switches: PLAIN,
  });
  const java = toolchains.get('java')!;
  const opened = openCompilers({
    ...{ sandbox, toolchains: new Map([['java', java]]), artefacts_folder: cache.artefacts_folder },
    ...{
      boot: await bootId(),
      rooms: [cache],
      isOn: () => false,
      compile_limits: COMPILE_DEFAULTS,
      log,
    },
  });
  const sources = { main: 'Main.java', code: Buffer.from(hello(1)), others: [] };
  const [step] = await opened.open.get('java')!.steps(sources);
  const compilers = new ResidentCompilers({
    ...{ home: java.at, front: async () => step!.load[0]!.key, log, most: 1, idle_ms, quiet_ms },
    retry_ms: 1,
    open: ({ limits, ...request }) => {
      // Too little for a JVM to start.
      const cpu_ms = left-- > 0 ? 1 : limits.cpu_ms;
      const fixed = { files: [], stdin: new Uint8Array(), profile: 'java' };
      return sandbox.open({ ...request, ...fixed, limits: { ...limits, cpu_ms } });
    },
  });
  t.teardown(() => compilers.close());
  return compilers;
}

t.test('a compiler without work ends, and its room is free', async (t) => {
  const compilers = await residents(t, { idle_ms: 1 });
  const compile = (account: string) => compilers.compile(account, Buffer.from(hello(1)), NEVER);
  const not_tried = { answer: null, cpu_us: 0, wall_us: 0 };
  t.strictSame(await compile('alice'), not_tried, 'none is warm yet');
  t.ok(await compilers.warmed());
  t.match(await compile('alice'), { answer: { compiled: true, entry: 'A' } });
  while (!(await compilers.warmed())) await sleep(10);
  t.match(
    await compile('bob'),
    { answer: { compiled: true } },
    'there is one room, and it is no longer hers',
  );
  await compilers.close();
  t.strictSame(await compile('carol'), not_tried, 'closed');
});

t.test('one that is being ended is not asked, and its account may have another', async (t) => {
  const idle_ms = 50;
  const compilers = await residents(t, { idle_ms });
  const compile = () => compilers.compile('alice', Buffer.from(hello(1)), NEVER);
  t.ok(await compilers.warmed());
  t.match(await compile(), { answer: { compiled: true } });
  // Node fires timers of the same length in their order: its end began a moment ago.
  await sleep(idle_ms);
  t.strictSame(await compile(), { answer: null, cpu_us: 0, wall_us: 0 });
  while (!(await compilers.warmed())) await sleep(10);
  t.match(await compile(), { answer: { compiled: true } });
});

t.test('without requests the spare ends, and the next request makes another', async (t) => {
  const compilers = await residents(t, { idle_ms: 60_000, quiet_ms: 1 });
  const compile = () => compilers.compile('alice', Buffer.from(hello(1)), NEVER);
  t.ok(await compilers.warmed());
  while (compilers.count > 0) await sleep(10);
  t.match(await compile(), { answer: null }, 'there is none');
  t.equal(compilers.count, 1, 'but one is on its way');
});

t.test('one that ends without an answer still charges its time', async (t) => {
  const compilers = await residents(t, { idle_ms: 60_000 });
  t.ok(await compilers.warmed());
  for (const [name, code] of Object.entries({ stack: DEEP, memory: HUGE })) {
    while (!(await compilers.warmed())) await sleep(10);
    const { answer, cpu_us, wall_us } = await compilers.compile(name, Buffer.from(code), NEVER);
    t.equal(answer, null, name);
    t.ok(cpu_us! > 1_000, `${cpu_us}`);
    t.ok(wall_us > 1_000);
  }
});

t.test('a compile that is cancelled ends, and its compiler with it', async (t) => {
  const compilers = await residents(t, { idle_ms: 60_000 });
  t.ok(await compilers.warmed());
  const gone = new AbortController();
  const compiling = compilers.compile('alice', Buffer.from(ENDLESS), gone.signal);
  const next = compilers.compile('alice', Buffer.from(hello(1)), gone.signal);
  await new Promise(setImmediate);
  gone.abort();
  const { answer, wall_us } = await compiling;
  t.equal(answer, null);
  t.ok(wall_us > 0 && wall_us < 5_000_000, 'it began, and does not end by itself in five seconds');
  t.match(await next, { answer: null, wall_us: 0 }, 'one that has not begun is not tried');
});

t.test('a failed warm-up is repeated, after a pause', async (t) => {
  const log: string[] = [];
  const said = (message: string) => log.push(message);
  const compilers = await residents(t, { idle_ms: 60_000, failures: 2, log: said });
  while (!(await compilers.warmed())) await sleep(10);
  t.match(await compilers.compile('alice', Buffer.from(hello(1)), NEVER), {
    answer: { compiled: true },
  });
  t.strictSame(
    log.map((line) => line.slice(line.lastIndexOf(';'))),
    ['; the next attempt follows in 0.001 s', '; the next attempt follows in 0.002 s'],
  );
});
