/** What goes wrong with the service is thrown and never judged; what is known goes into the evidence. */
import { readdir } from 'node:fs/promises';
import t from 'tap';
import { anExecutor, PLAIN } from './an_executor.ts';

const SLEEPS = 'import time; time.sleep(60)';

t.test('faults', async (t) => {
  const { run, sandbox, cache } = await anExecutor(t, { speed: PLAIN });

  t.test('who cancels gets a fault, before and during a run', async (t) => {
    const gone = { name: 'SandboxFault', kind: 'cancelled' };
    await t.rejects(run('python', 'print(1)', { signal: AbortSignal.abort() }), gone);
    const during = new AbortController();
    const sleeping = run('python', SLEEPS, { signal: during.signal });
    // First come, first served: when later ones have run, that one has begun.
    await Promise.all([run('python', '1'), run('python', '2')]);
    during.abort();
    await t.rejects(sleeping, gone);
  });

  t.test('while a compiler works, too', async (t) => {
    const during = new AbortController();
    const slow = `#include <bits/stdc++.h>\ntemplate <int N> struct S { std::map<S<N - 1>, int> m; };\ntemplate <> struct S<0> {};\nint main() { S<200> s; }`;
    const compiling = run('cpp', slow, { signal: during.signal });
    await Promise.all([run('python', '1'), run('python', '2')]);
    during.abort();
    await t.rejects(compiling, { name: 'SandboxFault', kind: 'cancelled' });
    await cache.settled();
    t.strictSame(cache.size, { entries: 0, bytes: 0 });
  });

  t.test('a deadline that passes is nobody’s verdict', async (t) => {
    const sleeping = run('python', SLEEPS);
    await Promise.all([run('python', '1'), run('python', '2')]);
    sandbox.extendDeadline(1);
    await t.rejects(sleeping, { name: 'SandboxFault', kind: 'deadline' });
    sandbox.extendDeadline(0);
    t.match(await run('python', 'print(1)'), { verdict: 'AC' });
  });

  t.test('nor is a launcher that dies, and the next run is right', async (t) => {
    const sleeping = run('python', SLEEPS);
    await Promise.all([run('python', '1'), run('python', '2')]);
    process.kill(sandbox.isolation.pid, 'SIGKILL');
    await t.rejects(sleeping, { name: 'SandboxFault', kind: 'launcher_lost' });
    t.match(await run('python', 'print(1)'), { verdict: 'AC', stdout: '1\n' });
    const cpp = 'int main() { return 3; }';
    t.match(await run('cpp', cpp), { verdict: 'RE', exit_code: 3 });
  });
});

t.test('the evidence says under what it was judged', async (t) => {
  const { run, sandbox } = await anExecutor(t, { speed: PLAIN });
  const { evidence } = await run('python', 'print(1)', { limits: { cpu_time_ms: 1_000 } });
  t.match(evidence, {
    isolation: sandbox.isolation.kind,
    degraded: false,
    toolchain: /^Python 3/,
    limits: { cpu_ms: 1_000, wall_ms: 10_000, stdout_bytes: 1024 * 1024 },
    run: { killed_for: null, oom_kills: 0, stdout_seen_bytes: 2, pids_limit_hits: 0 },
    compile: null,
  });
  t.notOk(JSON.stringify(evidence).includes('stdout":'), 'facts alone, no bytes');
  const refused = await run('cpp', 'x');
  t.match(refused.evidence, { run: null, compile: { by: 'plain', killed_for: null } });
});

t.test('languages are those that are wanted and there', async (t) => {
  const all = await anExecutor(t, { speed: PLAIN });
  t.strictSame(all.executor.languages(), ['python', 'cpp', 'java']);
  const some = await anExecutor(t, { speed: PLAIN, languages: ['java', 'python', 'cobol'] });
  t.strictSame(some.executor.languages(), ['python', 'java']);
  const { java: _java, ...rest } = all.toolchains;
  const without = await anExecutor(t, { speed: PLAIN, toolchains: { ...rest, java: null } });
  t.strictSame(without.executor.languages(), ['python', 'cpp']);
  await t.rejects(without.run('java', 'class A {}'), /cannot run java/);
});

t.test('a cache of nothing leaves nothing on disk', async (t) => {
  const { run, cache, executor } = await anExecutor(t, { speed: PLAIN, cache_bytes: 0 });
  await executor.prepared();
  const code = 'int main() { return 0; }';
  for (const _ of [1, 2]) t.match(await run('cpp', code), { compile: { cached: false } });
  await cache.settled();
  const left = (await readdir(cache.artefacts_folder)).filter(
    (name) => !name.startsWith('prepared-'),
  );
  t.strictSame(left, []);
});

t.test('many at once, on fewer slots, each with its own answer', async (t) => {
  const { run } = await anExecutor(t, { speed: PLAIN });
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

t.test(
  'what was made ahead is there after a restart, and is made anew for another compiler',
  async (t) => {
    const folder = t.testdir();
    const options = {
      folder,
      speed: { ...PLAIN, precompiled_headers: true },
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
  },
);
