/** A failure of the service is thrown and never judged; the evidence shows what the judgement rests on. */
import { readdir } from 'node:fs/promises';
import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import { runnable } from '../../src/executor/executor.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { anExecutor, PLAIN } from './an_executor.ts';

const SLEEPS = 'import time; time.sleep(600)';

t.test('faults', async (t) => {
  const { run, sandbox, cache } = await anExecutor(t, {
    languages: ['python', 'cpp'],
    switches: PLAIN,
  });

  t.test('a cancelled run rejects with a fault, before and during the run', async (t) => {
    const gone = { name: 'SandboxFault', kind: 'cancelled' };
    await t.rejects(run('python', 'print(1)', { signal: AbortSignal.abort() }), gone);
    const during = new AbortController();
    const sleeping = run('python', SLEEPS, { signal: during.signal });
    // Runs start in order: when later ones have ended, this one has begun.
    await Promise.all([run('python', '1'), run('python', '2')]);
    during.abort();
    await t.rejects(sleeping, gone);
  });

  t.test('so does a cancelled compile', async (t) => {
    const during = new AbortController();
    const slow = `#include <bits/stdc++.h>\ntemplate <int N> struct S { std::map<S<N - 1>, int> m; };\ntemplate <> struct S<0> {};\nint main() { S<200> s; }`;
    const compiling = run('cpp', slow, { signal: during.signal });
    await Promise.all([run('python', '1'), run('python', '2')]);
    during.abort();
    await t.rejects(compiling, { name: 'SandboxFault', kind: 'cancelled' });
    await cache.settled();
    t.strictSame(cache.size, { entries: 0, disk_bytes: 0 });
  });

  t.test('a deadline that passes is not a verdict', async (t) => {
    const sleeping = run('python', SLEEPS);
    await Promise.all([run('python', '1'), run('python', '2')]);
    sandbox.extendDeadline(1);
    await t.rejects(sleeping, { name: 'SandboxFault', kind: 'deadline' });
    sandbox.extendDeadline(0);
    t.match(await run('python', 'print(1)'), { verdict: 'AC' });
  });

  t.test('the death of a launcher is not a verdict, and the next run is right', async (t) => {
    const sleeping = run('python', SLEEPS);
    await Promise.all([run('python', '1'), run('python', '2')]);
    process.kill(sandbox.isolation.pid, 'SIGKILL');
    await t.rejects(sleeping, { name: 'SandboxFault', kind: 'launcher_lost' });
    t.match(await run('python', 'print(1)'), { verdict: 'AC', stdout: '1\n' });
    const cpp = 'int main() { return 3; }';
    t.match(await run('cpp', cpp), { verdict: 'RE', exit_code: 3 });
  });
});

t.test('the evidence has the isolation, the toolchain, the limits and the counters', async (t) => {
  const { run, sandbox } = await anExecutor(t, {
    languages: ['python', 'cpp'],
    switches: PLAIN,
    policy: DEFAULT_POLICY,
  });
  const { evidence, limits } = await run('python', 'print(1)', { limits: { cpu_time_ms: 1_000 } });
  t.match(evidence, {
    isolation: sandbox.isolation.kind,
    degraded: false,
    toolchain: /^Python 3/,
    run: {
      killed_for: null,
      oom_kills: 0,
      memory_refused: 0,
      stdout_seen_bytes: 2,
      pids_limit_hits: 0,
    },
    compile: null,
  });
  t.match(limits, { cpu_ms: 1_000, wall_ms: 10_000, stdout_bytes: 1024 * 1024 });
  t.notOk(JSON.stringify(evidence).includes('stdout":'), 'it holds no bytes of the output');
  const refused = await run('cpp', 'x');
  t.match(refused.evidence, { run: null, compile: { by: 'plain', killed_for: null } });
});

t.test('its languages are those of its toolchains', async (t) => {
  const all = await anExecutor(t, { languages: ['python', 'cpp'], switches: PLAIN });
  t.strictSame(Object.keys(all.executor.toolchains()), [...all.toolchains.keys()]);
  const { python } = Object.fromEntries(all.toolchains);
  const toolchains = new Map([['python', python!]]);
  const one = await anExecutor(t, { switches: PLAIN, toolchains });
  t.strictSame(Object.keys(one.executor.toolchains()), ['python']);
  await t.rejects(one.run('java', 'class A {}'), /cannot run java/);
});

t.test('degraded isolation leaves out the languages that need a box', async (t) => {
  const { toolchains } = await findToolchains();
  t.ok(toolchains.get('javascript')?.needs_box);
  t.strictSame([...runnable(toolchains, false).keys()], [...toolchains.keys()]);
  const left = [...toolchains.keys()].filter((name) => name !== 'javascript');
  t.strictSame([...runnable(toolchains, true).keys()], left);
});

t.test('a cache of size 0 leaves nothing on disk', async (t) => {
  const { run, cache, executor } = await anExecutor(t, {
    languages: ['cpp'],
    switches: PLAIN,
    cache_bytes: 0,
  });
  await executor.prepared();
  const code = 'int main() { return 0; }';
  for (const _ of [1, 2]) t.match(await run('cpp', code), { compile: { cached: false } });
  await cache.settled();
  const left = (await readdir(cache.artefacts_folder)).filter(
    (name) => !name.startsWith('prepared-'),
  );
  t.strictSame(left, []);
});

t.test('many runs on few slots: each gets its own answer', async (t) => {
  const { run } = await anExecutor(t, { languages: ['python', 'cpp'], switches: PLAIN });
  const runs = Array.from({ length: 24 }, (_, i) =>
    i % 4 === 0
      ? run('cpp', `#include <cstdio>\nint main() { printf("%d", ${i}); }`)
      : run('python', `print(${i}, end="")`, { account_id: `account ${i}` }),
  );
  const outcomes = await Promise.all(runs);
  t.strictSame(
    outcomes.map(({ verdict, stdout }) => [verdict, stdout]),
    runs.map((_, i) => ['AC', String(i)]),
  );
});

t.test('a restart finds what was made ahead, and other headers are made besides', async (t) => {
  const folder = t.testdir();
  const options = {
    folder,
    languages: ['cpp', 'java'] as const,
    switches: { ...PLAIN, precompiled_headers: true },
    header_sets: [['cstdio']],
  };
  const prepared = async (names: string[]) =>
    names.filter((name) => name.startsWith('prepared-')).sort();
  const code = '#include <cstdio>\nint main() { puts("x"); }';
  let first: string[] = [];
  await t.test('first', async (t) => {
    const { executor, cache, run } = await anExecutor(t, options);
    await executor.prepared();
    first = await prepared(await readdir(cache.artefacts_folder));
    t.equal(first.length, 3, 'the front of the Java compiler, its archive, and the headers');
    t.match((await run('cpp', code)).evidence['compile'], { by: 'headers cstdio' });
  });
  await t.test('again', async (t) => {
    const { executor, cache, run } = await anExecutor(t, options);
    t.match((await run('cpp', code)).compile, { cached: true });
    await executor.prepared();
    t.strictSame(await prepared(await readdir(cache.artefacts_folder)), first);
    const other = await run('cpp', `${code}// other`);
    t.match(other.evidence['compile'], { by: 'headers cstdio' });
  });
  await t.test('with other flags', async (t) => {
    const { executor, cache } = await anExecutor(t, { ...options, header_sets: [['cstdlib']] });
    await executor.prepared();
    const now = await prepared(await readdir(cache.artefacts_folder));
    t.equal(now.length, 4);
  });
});
