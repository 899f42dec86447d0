// needs: cpp
import { readdir } from 'node:fs/promises';
import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';

const MiB = 1024 * 1024;
const main = (body: string, head = '') =>
  `#include <iostream>\n${head}\nint main(int argc, char** argv) { ${body} }\n`;

t.test('C++', async (t) => {
  const { run, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const cpp = (code: string, more = {}) => run('cpp', code, more);

  t.test('compiles and runs, and tells the two apart', async (t) => {
    const outcome = await cpp(
      main('std::string s; std::cin >> s; std::cout << s << argc << argv[1];'),
      {
        stdin: 'in',
        args: ['one'],
      },
    );
    t.match(outcome, { verdict: 'AC', exit_code: 0, stdout: 'in2one', stderr: '' });
    t.match(outcome.compile, { exit_code: 0, cached: false });
    t.ok(
      outcome.compile!.cpu_time_us! > 10 * outcome.cpu_time_us!,
      'the run costs what the run does',
    );
    t.ok(outcome.compile!.memory_peak_bytes! > 10 * MiB);
    t.ok(outcome.memory_peak_bytes! < 10 * MiB);
  });

  t.test('what it compiled before it need not compile again', async (t) => {
    const code = main('std::cout << 1;');
    const first = await cpp(code);
    t.equal(first.compile!.cached, false);
    const again = await cpp(code, { args: ['other'], stdin: 'other' });
    t.match(again, { verdict: 'AC', stdout: '1' });
    t.strictSame(again.compile, {
      cpu_time_us: null,
      wall_time_us: null,
      memory_peak_bytes: null,
      exit_code: 0,
      cached: true,
    });
    const other = await cpp(code, { account_id: 'bob' });
    t.equal(other.compile!.cached, false, "another account's is not found");
  });

  t.test('a cached program whose files are gone is compiled again', async (t) => {
    const code = main('std::cout << 2;');
    await cpp(code);
    const { rm } = await import('node:fs/promises');
    for (const name of await readdir(cache.artefacts_folder)) {
      if (!name.startsWith('prepared-')) {
        await rm(`${cache.artefacts_folder}/${name}`, { recursive: true });
      }
    }
    const again = await cpp(code);
    t.match(again, { verdict: 'AC', stdout: '2', compile: { cached: false } });
  });

  t.test('refused: the compiler speaks, and nothing ran', async (t) => {
    const outcome = await cpp('int main() { return x; }\n');
    t.match(outcome, {
      verdict: 'CE',
      status: 'completed',
      exit_code: null,
      signal: null,
      cpu_time_us: null,
      wall_time_us: null,
      memory_peak_bytes: null,
      stdout: '',
      compile: { exit_code: 1, cached: false },
    });
    t.match(
      outcome.stderr,
      /^main\.cpp: In function 'int main\(\)':|^main\.cpp: In function ‘int main\(\)’:/,
    );
    t.match(outcome.stderr, /error: .x. was not declared in this scope/);
    t.ok(outcome.compile!.cpu_time_us! > 1000);
  });

  t.test('refused by the linker', async (t) => {
    const outcome = await cpp('int f(); int main() { return f(); }');
    t.match(outcome, { verdict: 'CE', compile: { exit_code: 1 } });
    t.match(outcome.stderr, /undefined (symbol|reference)/);
    t.match(await cpp(''), { verdict: 'CE' });
  });

  t.test('warnings do not refuse, and are not shown as what the program wrote', async (t) => {
    t.match(await cpp('#warning hello\nint main() {}'), { verdict: 'AC', stderr: '' });
  });

  t.test('more to say than is kept', async (t) => {
    const code = `${'int x = y;\n'.repeat(3000)}int main() {}`;
    const outcome = await cpp(code);
    t.match(outcome, { verdict: 'CE', stderr_truncated: true });
    const kept = Buffer.byteLength(outcome.stderr);
    t.ok(kept > 65_500 && kept < 65_550, `${kept} bytes: 64 KiB, but for a letter cut in two`);
  });

  t.test('signals', async (t) => {
    const null_ = await cpp(main('*(volatile int*)nullptr = 1;'));
    t.match(null_, { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV' });
    const aborts = await cpp(main('throw 1;'));
    t.match(aborts, { verdict: 'SIG', exit_code: 134, signal: 'SIGABRT' });
    const divides = await cpp(main('raise(SIGFPE);', '#include <csignal>'));
    t.match(divides, { verdict: 'SIG', exit_code: 136, signal: 'SIGFPE' });
  });

  t.test('limits of the run', async (t) => {
    const spins = await cpp('int main() { for (volatile int i = 0;;) i = i + 1; }', {
      limits: { cpu_time_ms: 200 },
    });
    t.match(spins, { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL' });
    const eats =
      'for (;;) { volatile char* p = new char[1 << 20]; for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }';
    const ate = await cpp(main(eats), { limits: { memory_bytes: 32 * MiB } });
    t.match(ate, { verdict: 'MLE', exit_code: 137, signal: 'SIGKILL' });
    t.ok(ate.memory_peak_bytes! <= 32 * MiB, `${ate.memory_peak_bytes}`);
    const asks = await cpp(main('std::cout << new char[1ull << 46];'));
    t.match(asks, { verdict: 'MLE', exit_code: 134, signal: 'SIGABRT' });
    const writes = await cpp(main('for (;;) std::cout << "0123456789";'));
    t.match(writes, { verdict: 'OLE', exit_code: 137, signal: 'SIGKILL', stdout_truncated: true });
    t.equal(writes.stdout.length, MiB);
  });

  t.test('exit codes and answers', async (t) => {
    t.match(await cpp(main('return 42;')), { verdict: 'RE', exit_code: 42 });
    const answer = main('std::cout << 6 * 7 << "  \\n\\n";');
    t.match(await cpp(answer, { expected_output: '42' }), { verdict: 'AC' });
    t.match(await cpp(answer, { expected_output: '43' }), { verdict: 'WA', exit_code: 0 });
  });

  t.test('every standard header, threads, and C++17', async (t) => {
    const code = `#include <bits/stdc++.h>
#include <thread>
#include <atomic>
#include <filesystem>
int main() {
  std::atomic<int> n{0}; std::vector<std::thread> ts;
  for (int i = 0; i < 8; i++) ts.emplace_back([&] { n++; });
  for (auto& t : ts) t.join();
  if (auto [a, b] = std::pair(1, 2); a < b) std::cout << n << std::filesystem::exists("/box") << std::gcd(12, 18);
}`;
    t.match(await cpp(code), { verdict: 'AC', stdout: '816' });
  });
});

t.test('a compiler has limits of its own', async (t) => {
  const { compile } = DEFAULT_POLICY;
  const with_limits = async (limits: Partial<typeof compile>) => {
    const policy = { ...DEFAULT_POLICY, compile: { ...compile, ...limits } };
    return (await anExecutor(t, { languages: ['cpp'], policy, switches: PLAIN })).run;
  };

  t.test('time', async (t) => {
    const run = await with_limits({ cpu_ms: 1_000, wall_ms: 300_000 });
    const slow = `
constexpr unsigned f(unsigned n) { unsigned x = 0; for (unsigned i = 0; i < n; i++) x = x * 31 + i; return x; }
template <unsigned N> struct S { static constexpr unsigned v = f(250000 + N) + S<N - 1>::v; };
template <> struct S<0> { static constexpr unsigned v = 0; };
int main() { return S<500>::v; }`;
    const outcome = await run('cpp', slow);
    t.match(outcome, { verdict: 'CE', exit_code: null, signal: null, compile: { exit_code: 137 } });
    t.equal(outcome.stderr, 'The compiler exceeded its limit of 1 s of CPU time.\n');
  });

  t.test('memory', async (t) => {
    const run = await with_limits({ memory_bytes: 96 * MiB, cpu_ms: 60_000, wall_ms: 300_000 });
    const tens = [...'BCDEFG'].map(
      (x, i) => `#define ${x} ${`${'ABCDEF'[i]},`.repeat(9)}${'ABCDEF'[i]}`,
    );
    const large = `#define A 1,2,3,4,5\n${tens.join('\n')}\nint x[] = {G};\nint main() {}\n`;
    const outcome = await run('cpp', large);
    t.match(outcome, { verdict: 'CE', exit_code: null });
    t.equal(outcome.stderr, 'The compiler exceeded its limit of 96 MiB of memory.\n');
  });

  t.test('what a source says of a limit is no limit', async (t) => {
    const run = await with_limits({});
    const words = 'fatal error: Killed signal; out of memory; No space left on device';
    const outcome = await run('cpp', `static_assert(false, "${words}");\n"${words}: `);
    t.match(outcome, { verdict: 'CE' });
    t.match(outcome.stderr, /static assertion failed/);
    t.notMatch(outcome.stderr, /exceeded its limit/);
  });
});
