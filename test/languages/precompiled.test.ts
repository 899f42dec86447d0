// needs: cpp
/**
 * Precompiled headers change no meaning: a corpus compiled both ways, and whatever can be seen of a
 * submission (verdict, output, diagnostics to the letter, exit codes) is the same.
 */
import t from 'tap';
import { HEADER_SETS } from '../../src/languages/cpp/headers.ts';
import { anExecutor, type Outcome, PLAIN } from '../executor/an_executor.ts';
import { judging } from '../executor/judgings.ts';

const IO = '#include <iostream>\n';
/** Compiled without its precompiled header, it takes seconds: what a smaller header shows as well is shown by that. */
const ALL = '#include <bits/stdc++.h>\n';
const MANY = '#include <vector>\n#include <string>\n#include <iostream>\n#include <algorithm>\n';

/** Of the sets that a deployment makes those that the corpus needs. */
const SETS = HEADER_SETS.filter((set) =>
  ['bits/stdc++.h', 'iostream', 'iostream vector string algorithm'].includes(set.join(' ')),
);

/** name, the way it must go, source */
const CORPUS: [string, string, string][] = [
  ['hello', 'headers iostream', `${IO}int main() { std::cout << "hello\\n"; }`],
  [
    'comments first',
    'headers iostream',
    `// a\n/* b */\n${IO}int main() { std::cout << __LINE__ << __FILE__; }`,
  ],
  [
    'everything',
    'headers bits/stdc++.h',
    `${ALL}using namespace std; int main() { map<string, int> m{{"a", 1}}; for (auto& [k, v] : m) cout << k << v << __cplusplus; }`,
  ],
  [
    'twice',
    'headers iostream',
    `${IO}${IO}#include <numeric>\n${IO}int main() { std::cout << std::gcd(12, 18); }`,
  ],
  [
    'several',
    'headers iostream vector string algorithm',
    `${MANY}int main() { std::vector<std::string> v{"b", "a"}; std::sort(v.begin(), v.end()); std::cout << v[0]; }`,
  ],
  ['one of none', 'plain', '#include <cstdio>\nint main() { puts("plain"); }'],
  ['a token first', 'plain', `int x;\n${IO}int main() { std::cout << x; }`],
  [
    'a macro first',
    'plain',
    `#define NDEBUG\n${IO}#include <cassert>\nint main() { assert(false); std::cout << 1; }`,
  ],
  [
    'a macro between',
    'headers iostream',
    `${IO}#define SIZE 2\n#include <sstream>\nint main() { std::cout << SIZE; }`,
  ],
  [
    'an optimisation first',
    'plain',
    `#pragma GCC optimize("O3")\n${IO}int main() { std::cout << 3; }`,
  ],
  [
    'an optimisation after',
    'headers bits/stdc++.h',
    `${ALL}#pragma GCC optimize("O3")\n#pragma GCC target("avx2")\nint main() { std::cout << 4; }`,
  ],
  [
    'counter and level',
    'headers iostream',
    `${IO}int main() { std::cout << __COUNTER__ << __COUNTER__ << __INCLUDE_LEVEL__; }`,
  ],
  [
    'assert names the file',
    'headers iostream',
    `${IO}#include <cassert>\nint main() { assert(1 == 2); }`,
  ],
  [
    'guards are seen',
    'headers iostream',
    `${IO}#ifdef _GLIBCXX_IOSTREAM\nint main() { std::cout << "guarded"; }\n#endif`,
  ],
  ['what was not included is not there', 'plain', `${IO}int main() { std::regex r("a"); }`],
  ['a missing name', 'plain', `${IO}int main() { return y; }`],
  ['no such operator', 'plain', `${IO}struct X {}; int main() { X x; std::cout << x; }`],
  [
    'errors inside of headers',
    'plain',
    `${MANY}#include <map>\nusing namespace std; struct X {}; int main() { vector<X> v; sort(v.begin(), v.end()); map<X, int> m; m[X()] = 1; }`,
  ],
  [
    'several errors',
    'plain',
    `${MANY}int main() { std::string s = 5; std::vector<int> v = "x"; static_assert(sizeof(int) == 8, "bad"); }`,
  ],
  [
    'later than its first line',
    'plain',
    `\n\n// c\n${IO}struct X {}; int main() { std::cout << X(); }`,
  ],
  [
    'a clash with a header',
    'plain',
    `${MANY}using namespace std; int count = 1; int main() { return count; }`,
  ],
  ['an error directive', 'plain', `${IO}#error stop\nint main() {}`],
  ['refused by the linker', 'plain', `${IO}void f(); int main() { f(); std::cout << 1; }`],
  [
    'exceptions and signals',
    'headers iostream',
    `${IO}#include <stdexcept>\nint main() { throw std::runtime_error("what"); }`,
  ],
  [
    'floating point and locale',
    'headers iostream',
    `${IO}#include <cmath>\n#include <iomanip>\nint main() { std::cout << std::fixed << std::setprecision(12) << std::sqrt(2.0) << std::hexfloat << 0.1; }`,
  ],
];

/** All that a user sees of it, but for what it cost. */
const seen = ({ verdict, exit_code, signal, stdout, stderr, compile }: Outcome) => ({
  ...{ verdict, exit_code, signal, stdout },
  // The name of a temporary object file is random.
  stderr: stderr.replaceAll(/\/tmp\/cc\w+/g, '/tmp/cc'),
  compile: compile!.exit_code,
});

t.test('a corpus compiled both ways', async (t) => {
  const plain = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const fast = await anExecutor(t, {
    languages: ['cpp'],
    switches: { ...PLAIN, precompiled_headers: true },
    header_sets: SETS,
  });
  await fast.executor.prepared();
  t.strictSame(fast.faults, [], 'all could be prepared');
  for (const [name, way, code] of CORPUS) {
    const a = await plain.run('cpp', code);
    const b = await fast.run('cpp', code);
    t.strictSame(seen(b), seen(a), name);
    t.match(b.evidence['compile'], { by: way }, `${name}: by ${way}`);
  }
});

t.test('a file of the program is no header of the system, compiled ahead or not', async (t) => {
  const { run, executor } = await anExecutor(t, {
    languages: ['cpp'],
    switches: { ...PLAIN, precompiled_headers: true },
    header_sets: [['iostream']],
  });
  await executor.prepared();
  const code = `${IO}int main() { std::cout << "printed"; }`;
  const fileOf = (path: string) => ({
    path,
    bytes: Buffer.from(
      'namespace std { struct Silent { void operator<<(const char *) {} }; static Silent cout; }',
    ),
  });
  const own = await run('cpp', code, { judging: judging({ files: [fileOf('iostream')] }) });
  t.match(own, { verdict: 'AC', stdout: 'printed', evidence: { compile: { by: 'plain' } } });
  const other = await run('cpp', code, { judging: judging({ files: [fileOf('silent.cc')] }) });
  t.match(other, { stdout: 'printed', evidence: { compile: { by: 'headers iostream' } } });
});

t.test('what headers say does not depend on being compiled ahead', async (t) => {
  const fast = await anExecutor(t, {
    languages: ['cpp'],
    switches: { ...PLAIN, precompiled_headers: true },
    header_sets: [['iostream', 'vector'], ['iostream']],
  });
  await fast.executor.prepared();
  const plain = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const order =
    '#ifdef _GLIBCXX_VECTOR\n#define SEEN "after"\n#else\n#define SEEN "before"\n#endif\n';
  const main = 'int main() { std::cout << ';
  for (const [name, by, path, text, code] of [
    [
      'a header of the C library',
      'plain',
      'wchar.h',
      '#pragma once\n#define MARK 1\n#include_next <wchar.h>\n',
      `${IO}#ifdef MARK\n#define X 1\n#else\n#define X 2\n#endif\n${main}X; }`,
    ],
    ['a header within the header', 'plain', 'ostream', '#error "my own"\n', `${IO}${main}1; }`],
    [
      'between two headers',
      'plain',
      'evil.h',
      order,
      `${IO}#include <evil.h>\n#include <vector>\n${main}SEEN; }`,
    ],
    [
      'a source between two headers',
      'plain',
      'evil.cc',
      order,
      `${IO}#include <evil.cc>\n#include <vector>\n${main}SEEN; }`,
    ],
    [
      'out of the folder of headers',
      'plain',
      'one.cc',
      'inline int one() { return 1; }',
      `${IO}#include <../one.cc>\n${main}one(); }`,
    ],
    [
      'a source of its own',
      'headers iostream',
      'one.cc',
      'int one() { return 1; }',
      `${IO}int one();\n${main}one(); }`,
    ],
  ] as const) {
    const files = [{ path, bytes: Buffer.from(text) }];
    const a = await plain.run('cpp', code, { judging: judging({ files }) });
    const b = await fast.run('cpp', code, { judging: judging({ files }) });
    t.strictSame(seen(b), seen(a), name);
    t.match(b.evidence['compile'], { by }, `${name}: by ${by}`);
  }
});
