// needs: c
/**
 * The protocol of compile.ts, in real boxes with the real cache. The compiler is a shell: a script can end
 * in every way that a compiler can.
 */
import fs, { access, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import { Compiler, type CompilerParts } from '../../src/executor/compile.ts';
import { type CompileCache, openCompileCache } from '../../src/executor/compile_cache.ts';
import { cutDiagnostics } from '../../src/executor/compile_limits.ts';
import { openContentCache } from '../../src/executor/content_cache.ts';
import type { Sandbox } from '../../src/executor/sandbox.ts';
import { BASE_ENVIRONMENT } from '../../src/languages/common/box.ts';
import type {
  CompileStep,
  LimitMet,
  OpenCompiler,
  ResidentAnswer,
  ResidentReply,
} from '../../src/languages/common/language.ts';
import { until } from '../support/eventually.ts';
import { childrenOf } from '../support/processes.ts';
import { anExecutor, PLAIN } from './an_executor.ts';
import { contentStore } from './judgings.ts';

const folder = await mkdtemp(join(tmpdir(), 'runledger-compile-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));
const { executor, sandbox, cache, toolchains } = await anExecutor(t, {
  languages: ['c'],
  switches: PLAIN,
  folder,
});
// It prepares things in the folder that a test looks at.
await executor.prepared();
const policy = {
  ...DEFAULT_POLICY,
  compile: {
    ...DEFAULT_POLICY.compile,
    // Ten times what the dearest script here needs. One script uses it up.
    cpu_ms: 4_000,
    wall_ms: 300_000,
    memory_bytes: 192 * 2 ** 20,
    disk_bytes: 128 * 2 ** 20,
  },
};

// A box has a shell and few commands, so these scripts use what is built into the shell.
const COMPILES = 'printf program > program';
const says = (text: string) => `printf '${text}' >&2; exit 1`;
const ANSWER: ResidentAnswer = {
  ...{ compiled: true, said: new Uint8Array(), entry: 'Main' },
  files: new Map([['program', Buffer.from('archive')]]),
};
const reply = (answer: ResidentAnswer | null): ResidentReply => ({ answer, cpu_us: 5, wall_us: 6 });

/** Ways to compile, in their order: name -> script. */
type Scene = {
  steps: Record<string, string>;
  resident?: OpenCompiler['resident'];
  names_entry?: boolean;
  limitMet?: (exit_code: number | null, said: string) => LimitMet | null;
  cache?: CompileCache;
  rooms?: CompilerParts['rooms'];
  ready?: Promise<unknown>;
  run?: Sandbox['run'];
};

let sources = 0;

/** Compiles a source that no other test has. */
function scene({ steps, resident, names_entry = false, limitMet, ...more }: Scene) {
  const { cache: used = cache, rooms = [used], run = sandbox.run.bind(sandbox), ready } = more;
  const ways: CompileStep[] = Object.entries(steps).map(([by, script]) => ({
    ...{ by, argv: ['/bin/sh', '-c', script], env: BASE_ENVIRONMENT, files: [], load: [] },
  }));
  const waysWhenReady = async () => {
    await ready;
    return ways;
  };
  const open: OpenCompiler = {
    steps: ready === undefined ? () => ways : waysWhenReady,
    ...(resident && { resident }),
  };
  const named = {
    artefact: 'program',
    recipe: 'shell',
    names_entry,
    ...(limitMet && { limitMet }),
  };
  const compiler = { ...named, open: () => open };
  const installed = { ...toolchains.get('c')!, compiler };
  const compilers = { open: new Map([['c', open]]), renew: async () => false };
  const subject = new Compiler({ sandbox: { run }, cache: used, rooms, policy, compilers });
  const code = Buffer.from(`${++sources}`);
  return async (account_id = 'alice', signal = new AbortController().signal) => {
    const order = { account_id, language: 'c', main: 'main.c', code, others: [] };
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
    'leaves too much': 'printf %070000000d 0 > program',
  };
  for (const [name, fast] of Object.entries(failures)) {
    const compile = scene({ steps: { fast, plain: COMPILES } });
    t.match(await compile(), { by: 'plain', bytes: 'program', end: { exit_code: 0 } }, name);
  }
});

t.test('the cost of every step counts', async (t) => {
  const burns = 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; printf %020000000d 0 > x;';
  const cheap = await scene({ steps: { plain: says('no') } })();
  const both = await scene({ steps: { fast: `${burns} ${says('no')}`, plain: says('no') } })();
  t.equal(both.by, 'plain');
  t.ok(both.facts.cpu_time_us! > cheap.facts.cpu_time_us!);
  t.ok(both.facts.memory_peak_bytes! > 20_000_000, 'and the larger peak');
});

t.test('a step that meets a limit ends the compile', async (t) => {
  const compile = scene({ steps: { fast: 'while :; do :; done', plain: COMPILES } });
  t.match(await compile(), { by: 'fast', program: null, end: { killed_for: 'cpu' } });
});

t.test('a program that cannot be kept is a rejected source, and says why', async (t) => {
  const missing = await scene({ steps: { plain: 'true' } })();
  t.match(missing, { program: null, end: { exit_code: 1 }, limit_line: /cannot be run: / });
  const large = await scene({ steps: { plain: 'printf %070000000d 0 > program' } })();
  t.match(large, { program: null, end: { exit_code: 1 }, limit_line: /the limit of 64 MiB/ });
  const fits = await scene({ steps: { plain: 'printf %060000000d 0 > program' } })();
  t.match(fits, { bytes: /^0/, limit_line: null });
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
  const yes = await scene({ steps, resident: async () => reply(ANSWER) })();
  t.match(yes, { by: 'resident', bytes: 'archive', program: { entry: 'Main' } });
  t.match(yes.facts, { cpu_time_us: 5, wall_time_us: 6, memory_peak_bytes: null });
  const rejection = { ...ANSWER, compiled: false, said: Buffer.from('the error') };
  const no = await scene({ steps, resident: async () => reply(rejection) })();
  t.match(no, { by: 'resident', program: null, said: 'the error', end: { exit_code: 1 } });
});

t.test('the words of a resident compiler are cut as those of the plain one', async (t) => {
  const most = policy.compile.stderr_bytes;
  const words = async (length: number, compiled: boolean) => {
    const answer = { ...ANSWER, compiled, said: Buffer.alloc(length, 'x') };
    const fast = await scene({ steps: {}, resident: async () => reply(answer) })();
    const end = compiled ? COMPILES : 'exit 1';
    const slow = await scene({ steps: { plain: `printf %0${length}d 0 >&2; ${end}` } })();
    const facts = ({ said, said_truncated }: typeof fast) => [said.length, said_truncated];
    t.strictSame(facts(fast), facts(slow), `${length} bytes, ${compiled}`);
    return facts(fast);
  };
  for (const compiled of [true, false]) {
    t.strictSame(await words(most - 1, compiled), [most - 1, false]);
    t.strictSame(await words(most, compiled), [most, false]);
    t.strictSame(await words(most + 1, compiled), [most, true]);
  }
});

t.test('without an answer the steps decide, and what was spent before counts', async (t) => {
  const resident = async () => ({ answer: null, cpu_us: 7_000_000, wall_us: 9_000_000 });
  const result = await scene({ steps: { plain: COMPILES }, resident })();
  t.match(result, { by: 'plain', bytes: 'program' });
  t.ok(result.facts.cpu_time_us! > 7_000_000 && result.facts.wall_time_us! > 9_000_000);
  const lost = async () => ({ answer: null, cpu_us: null, wall_us: 1 });
  const unknown = await scene({ steps: { plain: COMPILES }, resident: lost })();
  t.match(unknown, { by: 'plain', facts: { cpu_time_us: null } });
});

t.test('a cancelled request does not wait for a resident compiler', async (t) => {
  const compile = scene({ steps: {}, resident: () => new Promise(() => {}) });
  const gone = new AbortController();
  const waiting = compile('alice', gone.signal);
  gone.abort(new Error('gone'));
  await t.rejects(waiting, { name: 'SandboxFault', kind: 'cancelled' });
});

t.test(
  'a cancelled request does not wait for what its steps need',
  { timeout: 60_000 },
  async (t) => {
    const made = Promise.withResolvers<void>();
    const compile = scene({ steps: { plain: COMPILES }, ready: made.promise });
    const gone = new AbortController();
    const waiting = compile('alice', gone.signal);
    gone.abort(new Error('gone'));
    const rejection = { name: 'SandboxFault', kind: 'cancelled' };
    await t.rejects(Promise.race([waiting, sleep(10_000)]), rejection);
    const late = scene({ steps: { plain: COMPILES }, ready: made.promise })('alice', gone.signal);
    await t.rejects(Promise.race([late, sleep(10_000)]), rejection, 'nor one that comes cancelled');
    // That nobody waits for any more: it must not end this process.
    made.reject(new Error('the front could not be made'));
    await new Promise(setImmediate);
  },
);

t.test('an entry point that is not a name is never used, and rejects the source', async (t) => {
  const named = (entry: string) =>
    scene({ steps: { plain: `${COMPILES}; printf %b '${entry}'` }, names_entry: true })();
  await cache.settled();
  const before = await readdir(cache.artefacts_folder);
  const rejected = { program: null, end: { exit_code: 1 }, limit_line: /not a name/ };
  for (const entry of ['-Dx', '@file', 'a b', 'a\\n']) {
    t.match(await named(entry), rejected, entry);
    const resident = async () => reply({ ...ANSWER, entry: entry.replace('\\n', '\n') });
    t.match(await scene({ steps: {}, resident })(), rejected, entry);
  }
  await cache.settled();
  t.strictSame(await readdir(cache.artefacts_folder), before, 'and nothing is left on disk');
  t.match(await named('a.b.Main'), { program: { entry: 'a.b.Main' } });
});

t.test('equal sources at the same moment are compiled once', async (t) => {
  const compile = scene({ steps: { plain: COMPILES } });
  const results = await Promise.all([compile(), compile(), compile(), compile('bob')]);
  t.strictSame(
    results.map(({ by, bytes, facts }) => [by, bytes, facts.cached]),
    [
      ['plain', 'program', false],
      ['shared', 'program', true],
      ['shared', 'program', true],
      ['plain', 'program', false],
    ],
    'by each account',
  );
  t.match(results[1]?.facts, { cpu_time_us: null, wall_time_us: null, exit_code: 0 });
});

t.test('a rejection is shared, too', async (t) => {
  const compile = scene({ steps: { plain: says('the error') } });
  const [first, second] = await Promise.all([compile(), compile()]);
  t.match(first, { by: 'plain', said: 'the error', facts: { cached: false } });
  t.match(second, { by: 'shared', said: 'the error', program: null, facts: { cached: true } });
  t.match(second?.end, { exit_code: 1 });
  t.match(await compile(), { by: 'plain' }, 'but not kept');
});

t.test('a cache that keeps nothing shares all the same', async (t) => {
  const nothing = await openCompileCache({ folder, max_bytes: 0, max_entries: 1 });
  const compile = scene({ steps: { plain: COMPILES }, cache: nothing });
  const [first, second] = await Promise.all([compile(), compile()]);
  t.strictSame([first?.by, second?.by, second?.bytes], ['plain', 'shared', 'program']);
  t.match(await compile(), { by: 'plain' });
  await nothing.settled();
});

t.test('on a full disk a program gets the room of contents that no run holds', async (t) => {
  const store = contentStore();
  const bounds = { max_bytes: 2 ** 30, max_entries: 1_000, others: [cache] };
  const at = { folder: cache.artefacts_folder, ...bounds };
  const contents = await openContentCache({ ...at, fetch: store.fetch });
  await cache.makeRoom();
  const rooms = [cache, contents];
  const held = await contents.hold(store.put('held').file);
  const unused = await contents.hold(store.put('unused').file);
  unused.release();
  const isFull = () =>
    access(unused.path).then(
      () => true,
      () => false,
    );
  // As the launcher reports it.
  const run: Sandbox['run'] = async (...asked) => {
    if (!(await isFull())) return sandbox.run(...asked);
    const { saved: _saved, ...report } = await sandbox.run(...asked);
    return { ...report, store_full: true, save_failed: 'the store is full' };
  };
  t.match(await scene({ steps: { plain: COMPILES }, rooms, run })(), { bytes: 'program' });
  await t.rejects(access(unused.path), { code: 'ENOENT' });
  await access(held.path);
  (await contents.hold(store.put('unused').file)).release();
  // As the kernel does, to this process.
  const { writeFile } = fs;
  const restore = () => {
    fs.writeFile = writeFile;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  fs.writeFile = (async (...asked: Parameters<typeof writeFile>) => {
    if (await isFull()) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
    await writeFile(...asked);
  }) as typeof writeFile;
  syncBuiltinESMExports();
  const resident = async () => reply(ANSWER);
  t.match(await scene({ steps: {}, resident, rooms })(), { by: 'resident', bytes: 'archive' });
  restore();
  await access(held.path);
  held.release();
  t.equal(await contents.makeRoom(), true);
  t.equal(await contents.makeRoom(), false);
});

t.test(
  'a program that fits on no emptied disk is compiled twice, and the worker has no room',
  async (t) => {
    let runs = 0;
    const run: Sandbox['run'] = async (...asked) => {
      runs++;
      if (runs > 5) throw new Error('it is compiled again and again');
      const { saved: _saved, ...report } = await sandbox.run(...asked);
      return { ...report, store_full: true, save_failed: 'the store is full' };
    };
    // Other slots leave something unused each time.
    const rooms = [{ makeRoom: async () => true }];
    const compile = scene({ steps: { plain: COMPILES }, rooms, run });
    await t.rejects(compile(), { kind: 'no_room', message: /^the store is full/ });
    t.equal(runs, 2);
  },
);

/** A compiler that does not answer its first caller. */
function stuckOnce(first: Promise<ResidentReply>) {
  let calls = 0;
  return scene({
    steps: {},
    resident: () => (calls++ === 0 ? first : Promise.resolve(reply(ANSWER))),
  });
}

t.test('if the one that compiles is cancelled, the next of its equals compiles', async (t) => {
  const gone = new AbortController();
  const compile = stuckOnce(new Promise(() => {}));
  const first = compile('alice', gone.signal);
  const others = [compile(), compile()];
  gone.abort(new Error('gone'));
  await t.rejects(first, { name: 'SandboxFault', kind: 'cancelled' });
  t.strictSame(
    (await Promise.all(others)).map(({ by }) => by),
    ['resident', 'shared'],
  );
});

t.test('if the service fails at one, the next of its equals compiles', async (t) => {
  const failing = Promise.withResolvers<ResidentReply>();
  const compile = stuckOnce(failing.promise);
  const first = compile();
  const second = compile();
  failing.reject(new Error('the service failed'));
  await t.rejects(first, /the service failed/);
  t.match(await second, { by: 'resident', bytes: 'archive' });
});

t.test('one that waits for an equal can be cancelled', async (t) => {
  const gone = new AbortController();
  const answer = Promise.withResolvers<ResidentReply>();
  const compile = stuckOnce(answer.promise);
  const first = compile();
  const second = compile('alice', gone.signal);
  gone.abort(new Error('gone'));
  await t.rejects(second, { name: 'SandboxFault', kind: 'cancelled' });
  answer.resolve(reply(ANSWER));
  t.match(await first, { by: 'resident', bytes: 'archive' }, 'the other goes on');
});

t.test('a limit of ours is named, with its size', async (t) => {
  const line = async (steps: Record<string, string>, limitMet?: Scene['limitMet']) =>
    (await scene({ steps, ...(limitMet && { limitMet }) })()).limit_line;
  t.equal(
    await line({ plain: 'while :; do :; done' }),
    'The compiler exceeded its limit of 4 s of CPU time.\n',
  );
  t.equal(
    await line({ plain: 'printf %070000d 0' }),
    'The compiler exceeded its limit of 64 KiB of output.\n',
  );
  t.equal(
    await line({ plain: 'text=x; while :; do text=$text$text; done' }),
    'The compiler exceeded its limit of 192 MiB of memory.\n',
  );
  const within = await line({ plain: 'printf %060000000d 0 > x; exit 1' });
  t.equal(within, null, 'a failure within the limits names none');
  const met = await scene({
    steps: { plain: says('a warning; gcc: internal compiler error: full') },
    limitMet: (exit_code, said) =>
      exit_code === 1 ? { limit: 'files', said_until: said.indexOf('gcc') } : null,
  })();
  t.equal(met.said, 'a warning; ', 'instead of what the tools make of it');
  t.equal(met.limit_line, 'The compiler exceeded its limit of 128 MiB of files.\n');
  const late = await scene({
    steps: { plain: `printf %0200000d 0 >&2; ${says('gcc: full')}` },
    limitMet: (_, said) =>
      said.endsWith('0gcc: full') ? { limit: 'files', said_until: said.length } : null,
  })();
  t.match(late, { said: /^0+$/, said_truncated: true });
  t.match(late.limit_line, /128 MiB of files/, 'also after all that is kept');
});

t.test('the line that names the limit is never cut off', async (t) => {
  const compile = scene({ steps: { plain: 'while :; do echo error error error; done >&2' } });
  const { said, said_truncated, limit_line } = await compile();
  const cut = (most: number) => {
    const { bytes, truncated } = cutDiagnostics(
      { said: Buffer.from(said), said_truncated, limit_line },
      most,
    );
    return { text: Buffer.from(bytes).toString(), truncated };
  };
  t.equal(said.length, 64 * 1024);
  for (const most of [64 * 1024, 1_000]) {
    const { text, truncated } = cut(most);
    t.ok(text.length <= most && truncated);
    t.ok(text.endsWith(`\n${limit_line}`));
  }
  t.equal(cut(10).text, limit_line?.slice(0, 10));
  const short = { said: Buffer.from('error'), said_truncated: false };
  t.strictSame(cutDiagnostics({ ...short, limit_line: null }, 5), {
    bytes: short.said,
    truncated: false,
  });
  t.equal(cutDiagnostics({ ...short, limit_line: null }, 4).truncated, true);
});

t.test('a program that was saved before its launcher died is removed', async (t) => {
  const large = `a=$(printf %01048576d 0); for n in ${'1 '.repeat(32)}; do printf %s $a; done > program`;
  const names = () => readdir(cache.artefacts_folder);
  const { pid } = sandbox.isolation;
  const slots = new Set(childrenOf(pid));
  const isSaving = () => childrenOf(pid).some((child) => !slots.has(child));
  let before = new Set<string>();
  const isSaved = async () =>
    (await names()).some((name) => !before.has(name) && !name.startsWith('.'));
  /** A compile whose program is being saved by a stopped launcher's saver. On a busy machine some are over too soon. */
  async function compileWithStoppedLauncher() {
    for (let attempt = 0; attempt < 50; attempt++) {
      before = new Set(await names());
      let is_over = false;
      const end = scene({ steps: { plain: large } })()
        .catch((error: unknown) => error)
        .finally(() => {
          is_over = true;
        });
      while (!is_over && !isSaving()) await new Promise(setImmediate);
      process.kill(pid, 'SIGSTOP');
      if (isSaving() && !(await isSaved())) return { end };
      process.kill(pid, 'SIGCONT');
      await end;
    }
    throw new Error('no save was slow enough');
  }
  const { end } = await compileWithStoppedLauncher();
  await until(isSaved);
  process.kill(pid, 'SIGKILL');
  t.match(await end, { name: 'SandboxFault', kind: 'launcher_lost' });
  await cache.settled();
  t.notOk(await isSaved());
});

// The last one: nothing can be stored after it.
t.test('a store that takes nothing is a fault of the service, and never a verdict', async (t) => {
  await scene({ steps: { plain: COMPILES } })();
  t.ok(cache.size.entries > 0);
  await rm(cache.artefacts_folder, { recursive: true });
  await t.rejects(scene({ steps: { plain: COMPILES } })(), {
    name: 'SandboxFault',
    kind: 'no_room',
    message: /the store is/,
  });
  t.ok(cache.size.entries > 0, 'no program is removed, because that would not help');
  t.match(await scene({ steps: { plain: says('no') } })(), { said: 'no' }, 'nothing to store');
});
