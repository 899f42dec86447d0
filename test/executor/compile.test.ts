// needs: c
/**
 * The protocol of compile.ts, in real boxes with the real cache. The compiler is a shell: a script can end
 * in every way that a compiler can.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import type { ExecutionOrder } from '../../src/domain/result.ts';
import { Compiler } from '../../src/executor/compile.ts';
import { BASE_ENVIRONMENT } from '../../src/languages/common/box.ts';
import type {
  CompileStep,
  OpenCompiler,
  ResidentAnswer,
} from '../../src/languages/common/language.ts';
import { anExecutor, PLAIN } from './an_executor.ts';

const { sandbox, cache, toolchains } = await anExecutor(t, { switches: PLAIN });
const policy = {
  ...DEFAULT_POLICY,
  compile: { ...DEFAULT_POLICY.compile, cpu_ms: 300, disk_bytes: 64 * 2 ** 20 },
};

const COMPILES = 'printf program > program';
const says = (text: string) => `printf '${text}' >&2; exit 1`;
const ANSWER: ResidentAnswer = {
  ...{ compiled: true, said: new Uint8Array(), said_truncated: false, entry: 'Main' },
  ...{ archive: Buffer.from('archive'), cpu_us: 5, wall_us: 6 },
};

/** Ways to compile, in their order: name -> script. */
type Scene = {
  steps: Record<string, string>;
  resident?: OpenCompiler['resident'];
  names_entry?: boolean;
};

let sources = 0;

/** Compiles a source that no other test has. */
function scene({ steps, resident, names_entry = false }: Scene) {
  const ways: CompileStep[] = Object.entries(steps).map(([by, script]) => ({
    ...{ by, argv: ['/bin/sh', '-c', script], env: BASE_ENVIRONMENT, files: [], load: [] },
  }));
  const open: OpenCompiler = { steps: () => ways, ...(resident && { resident }) };
  const compiler = { artefact: 'program', recipe: 'shell', names_entry, open: () => open };
  const installed = { ...toolchains.get('c')!, compiler };
  const subject = new Compiler({ sandbox, cache, policy, compilers: new Map([['c', open]]) });
  const code = Buffer.from(`${++sources}`);
  return async (account_id = 'alice', signal = new AbortController().signal) => {
    const order = { account_id, language: 'c', code } as unknown as ExecutionOrder;
    const result = await subject.compile(installed, order, signal);
    const said = Buffer.from(result.said).toString();
    const { program } = result;
    const path = program && join(cache.artefacts_folder, program.artefact, 'program');
    const bytes = path && (await readFile(path, 'utf8'));
    program?.release();
    return { ...result, said, bytes };
  };
}

t.test('one step: its program, its cost, and from then on the cache', async (t) => {
  const compile = scene({ steps: { plain: COMPILES } });
  const first = await compile();
  t.match(first, { by: 'plain', bytes: 'program', end: { exit_code: 0 } });
  t.ok(first.facts.cpu_time_us! > 0 && !first.facts.cached);
  t.match(await compile(), { by: 'cache', bytes: 'program', facts: { cached: true } });
  t.equal((await compile('bob')).by, 'plain', "another account's program is not found");
});

t.test('a speed-up that compiles is enough', async (t) => {
  const compile = scene({ steps: { fast: COMPILES, plain: says('never') } });
  t.match(await compile(), { by: 'fast', bytes: 'program' });
});

t.test('the diagnostics of a speed-up are never read: the plain compiler decides', async (t) => {
  const compile = scene({ steps: { fast: says('a strange path'), plain: says('the error') } });
  t.match(await compile(), { by: 'plain', said: 'the error', program: null });
});

t.test('whatever a speed-up fails at, the plain compiler may compile', async (t) => {
  const failures = {
    rejects: says('no'),
    crashes: 'kill -SEGV $$',
    'leaves nothing': 'exit 0',
    'leaves too much': 'head -c 40000000 /dev/zero > program',
    'leaves a link': 'ln -s /etc/passwd program',
  };
  for (const [name, fast] of Object.entries(failures)) {
    const compile = scene({ steps: { fast, plain: COMPILES } });
    t.match(await compile(), { by: 'plain', bytes: 'program', end: { exit_code: 0 } }, name);
  }
});

t.test('the cost of every step counts', async (t) => {
  const burns = 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; head -c 20000000 /dev/zero > x;';
  const cheap = await scene({ steps: { plain: says('no') } })();
  const both = await scene({ steps: { fast: `${burns} ${says('no')}`, plain: says('no') } })();
  t.equal(both.by, 'plain');
  t.ok(both.facts.cpu_time_us! > cheap.facts.cpu_time_us!);
  // Half of the file: on cgroup v1 what the run before left lowers the peak a little.
  t.ok(both.facts.memory_peak_bytes! > 10_000_000, 'and the larger peak');
});

t.test('a step that meets a limit ends the compile', async (t) => {
  const compile = scene({ steps: { fast: 'while :; do :; done', plain: COMPILES } });
  t.match(await compile(), { by: 'fast', program: null, end: { killed_for: 'cpu' } });
});

t.test('a program that cannot be kept is a rejected source, and says why', async (t) => {
  const missing = await scene({ steps: { plain: 'true' } })();
  t.match(missing, { program: null, end: { exit_code: 1 }, said: /cannot be run: / });
});

t.test('a cancelled compile throws, and leaves no entry', async (t) => {
  const before = cache.size.entries;
  const gone = new AbortController();
  const compile = scene({ steps: { plain: 'sleep 60' } });
  const waiting = compile('alice', gone.signal);
  gone.abort(new Error('gone'));
  await t.rejects(waiting, { name: 'SandboxFault', kind: 'cancelled' });
  t.equal(cache.size.entries, before);
});

t.test('the answer of a resident compiler is final', async (t) => {
  const steps = { plain: says('never') };
  const yes = await scene({ steps, resident: async () => ANSWER })();
  t.match(yes, { by: 'resident', bytes: 'archive', program: { entry: 'Main' } });
  t.match(yes.facts, { cpu_time_us: 5, wall_time_us: 6, memory_peak_bytes: null });
  const rejection = { ...ANSWER, compiled: false, said: Buffer.from('the error') };
  const no = await scene({ steps, resident: async () => rejection })();
  t.match(no, { by: 'resident', program: null, said: 'the error', end: { exit_code: 1 } });
});

t.test('without an answer the steps decide', async (t) => {
  const compile = scene({ steps: { plain: COMPILES }, resident: async () => null });
  t.match(await compile(), { by: 'plain', bytes: 'program' });
});

t.test('a cancelled request does not wait for a resident compiler', async (t) => {
  const compile = scene({ steps: {}, resident: () => new Promise(() => {}) });
  const gone = new AbortController();
  const waiting = compile('alice', gone.signal);
  gone.abort(new Error('gone'));
  await t.rejects(waiting, { name: 'SandboxFault', kind: 'cancelled' });
});

t.test('an entry point that is not a name is never used', async (t) => {
  const named = (entry: string) =>
    scene({ steps: { plain: `${COMPILES}; printf %b '${entry}'` }, names_entry: true })();
  for (const entry of ['-Dx', '@file', 'a b', 'a\\n']) {
    await t.rejects(named(entry), /not a name/, entry);
    const resident = async () => ({ ...ANSWER, entry: entry.replace('\\n', '\n') });
    await t.rejects(scene({ steps: {}, resident })(), /not a name/, entry);
  }
  t.match(await named('a.b.Main'), { program: { entry: 'a.b.Main' } });
});
