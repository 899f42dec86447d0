// needs: java
/** Resident compilers: which account has one, when it ends, and that its end is never a verdict. */
import t from 'tap';
import { bootId } from '../../src/executor/compile_cache.ts';
import { openCompilers } from '../../src/executor/compilers.ts';
import { ResidentCompilers } from '../../src/languages/java/resident_compilers.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';

const WITH_RESIDENTS = { switches: { ...PLAIN, java_compiler: true }, standing_boxes: 2 };
const hello = (n: number) =>
  `class A { public static void main(String[] a) { System.out.print(${n}); } }`;

/** Overflows the compiler's stack. */
const DEEP = `class A { int f() { return ${'('.repeat(30_000)}1${')'.repeat(30_000)}; } public static void main(String[] a) {} }`;

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
    t.strictSame(await way(hello(1), 'bob'), ['resident', '1'], 'and compiles for itself');
  });

  t.test('without a spare the plain compiler answers, and room is made', async (t) => {
    t.strictSame(await way(hello(3), 'carol'), ['plain', '3']);
    await executor.prepared();
    t.strictSame(await way(hello(4), 'carol'), ['resident', '4']);
  });

  t.test('one that breaks is not used again, and its account does not see it break', async (t) => {
    const broken = await run('java', DEEP, { account_id: 'carol' });
    t.match(broken, { verdict: 'CE', evidence: { compile: { by: 'plain' } } });
    t.match(broken.stderr, /^An exception has occurred in the compiler|StackOverflowError/);
    await executor.prepared();
    t.strictSame(await way(hello(5), 'carol'), ['resident', '5']);
  });

  t.test('more at once than it takes turn by turn', async (t) => {
    const codes = Array.from({ length: 8 }, (_, i) => hello(100 + i));
    const outputs = await Promise.all(codes.map((code) => way(code, 'carol')));
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
    const gone = run('java', hello(200), { account_id: 'carol', signal: abort.signal });
    await t.rejects(gone, { name: 'SandboxFault', kind: 'cancelled' });
    t.strictSame(await way(hello(201), 'carol'), ['resident', '201']);
  });
  t.strictSame(faults, []);
});

t.test('its CPU time is what its group used', async (t) => {
  const { run, executor } = await anExecutor(t, WITH_RESIDENTS);
  await executor.prepared();
  const { compile } = await run('java', hello(1));
  t.ok(compile!.cpu_time_us! > 500 && compile!.cpu_time_us! < 2_000_000, `${compile!.cpu_time_us}`);
  t.equal(compile!.memory_peak_bytes, null);
  const again = await run('java', hello(2));
  t.ok(again.compile!.cpu_time_us! < 2_000_000);
});

t.test('a compiler without work ends, and its room is free', async (t) => {
  const { sandbox, cache, toolchains } = await anExecutor(t, { switches: PLAIN });
  const java = toolchains.get('java')!;
  const log = (message: string) => t.fail(message);
  const opened = openCompilers({
    ...{ sandbox, toolchains: new Map([['java', java]]), artefacts_folder: cache.artefacts_folder },
    ...{ boot: await bootId(), isOn: () => false, log },
  });
  const [step] = await opened.open.get('java')!.steps(Buffer.from(hello(1)));
  const compilers = new ResidentCompilers({
    ...{ home: java.at, front: async () => step!.load[0]!.key, log, most: 1, idle_ms: 1 },
    open: (request) =>
      sandbox.open({ ...request, files: [], stdin: new Uint8Array(), profile: 'java' }),
  });
  const compile = (account: string) => compilers.compile(account, Buffer.from(hello(1)));
  t.equal(await compile('alice'), null, 'none is warm yet');
  t.ok(await compilers.warmed());
  t.match(await compile('alice'), { compiled: true, entry: 'A' });
  while (!(await compilers.warmed())) await new Promise(setImmediate);
  t.match(await compile('bob'), { compiled: true }, 'there is one room, and it is no longer hers');
  await compilers.close();
  t.equal(await compile('carol'), null, 'closed');
});
