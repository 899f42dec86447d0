// needs: c, cpp, java, javascript, python
/** Programs of several files: what is compiled with the main source, and what is found when it runs. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { anExecutor, PLAIN } from '../executor/an_executor.ts';
import { judging } from '../executor/judgings.ts';
import { notChecked } from '../support/report.ts';

const { run } = await anExecutor(t, { switches: PLAIN });

async function outcomeOf(language: string, code: string, files: Record<string, string>) {
  const named = Object.entries(files).map(([path, words]) => ({ path, bytes: Buffer.from(words) }));
  return await run(language, code, { judging: judging({ files: named }) });
}

t.test('C: every source is compiled, and headers are found', async (t) => {
  const code =
    '#include "lib/six.h"\n#include <stdio.h>\nint main(void) { printf("%d\\n", six() * 7); }';
  const files = {
    'lib/six.h': 'int six(void);',
    'lib/six.c': '#include "six.h"\n#include "other.h"\nint six(void) { return SIX; }',
    'lib/other.h': '#include "top.h"',
    'top.h': '#define SIX 6',
    'notes.cpp': 'no C',
  };
  t.match(await outcomeOf('c', code, files), { verdict: 'AC', stdout: '42\n', stderr: '' });
  const { 'top.h': _top, ...without } = files;
  t.match(await outcomeOf('c', code, without), { verdict: 'CE', stderr: /top\.h/ });
});

t.test('C++: sources of every ending, and names that look like options', async (t) => {
  const code =
    'int a(), b(), c(), d();\n#include <cstdio>\nint main() { printf("%d\\n", a() + b() + c() + d()); }';
  const files = {
    'a.cc': 'int a() { return 1; }',
    '-o.cpp': 'int b() { return 10; }',
    '@c.cxx': 'int c() { return 100; }',
    'deep/er/d.c++': '#include <iostream>\nint d() { std::cout << ""; return 1000; }',
    '.headers/iostream': '#include_next <iostream>',
  };
  t.match(await outcomeOf('cpp', code, files), { verdict: 'AC', stdout: '1111\n' });
});

t.test('C and C++: a file takes the place of no header of the system', async (t) => {
  const code = `#include <map>\n#include <own.h>\n#include <iostream>
int main() { std::map<int, int> m{{OWN, 4}}; std::cout << m.begin()->second << MAP << "\\n"; }`;
  const files = {
    map: '1 2 3 a map of the world',
    iostream: 'a picture',
    'own.h': '#define OWN 1\n#include "search.h"',
    'search.h': '#define MAP 2',
  };
  t.match(await outcomeOf('cpp', code, files), { verdict: 'AC', stdout: '42\n' });
  const c = '#include <stdio.h>\n#include "string.h"\nint main(void) { puts(TEXT); }';
  const own = { 'string.h': '#define TEXT "own"', 'stdio.h': 'no C' };
  t.match(await outcomeOf('c', c, own), { verdict: 'AC', stdout: 'own\n' });
});

t.test('C and C++: files in folders find the headers of the work folder first', async (t) => {
  const code = '#include "deep/a.h"\n#include <cstdio>\nint main() { std::printf("%d\\n", A); }';
  const files = {
    'deep/a.h': '#include "search.h"\n#include "deep/b.h"\n#include <own.h>',
    'deep/b.h': '#define A (N + OWN)',
    'search.h': '#define N 40',
    'own.h': '#define OWN 2',
  };
  t.match(await outcomeOf('cpp', code, files), { verdict: 'AC', stdout: '42\n' });
});

t.test('C++: precompiled headers serve a program of several files', async (t) => {
  const fast = await anExecutor(t, {
    languages: ['cpp'],
    switches: { ...PLAIN, precompiled_headers: true },
    header_sets: [['iostream']],
  });
  await fast.executor.prepared();
  const files = [
    { path: 'six.cpp', bytes: Buffer.from('#include <iostream>\nint six() { return 6; }') },
  ];
  const code =
    '#include <iostream>\nint six();\nint main() { std::cout << six() * 7 << std::endl; }';
  const outcome = await fast.run('cpp', code, { judging: judging({ files }) });
  t.match(outcome, { verdict: 'AC', stdout: '42\n' });
  t.match(outcome.evidence['compile'], { by: 'headers iostream' });
});

t.test(
  'Java: every class is compiled, and the main class is looked for in the main source',
  async (t) => {
    const code =
      'import lib.Six;\npublic class Program { public static void main(String[] a) { System.out.println(Six.six() * new Seven().n); } }';
    const files = {
      'Seven.java':
        'class Seven { int n = 7; public static void main(String[] a) { System.out.println("not me"); } }',
      'lib/Six.java': 'package lib; public class Six { public static int six() { return 6; } }',
      'lib/package-info.java': '/** Sixes. */ package lib;',
      'words.txt': 'no Java',
      'program/Eight.java': 'package program; class Eight {}',
      'program.classes': 'a file by the name of what the compiler makes',
    };
    t.match(await outcomeOf('java', code, files), { verdict: 'AC', stdout: '42\n' });
    const wrong = { ...files, 'Seven.java': 'class Seven { int m; }' };
    t.match(await outcomeOf('java', code, wrong), { verdict: 'CE', stderr: /Main\.java:2: error/ });
    const broken = { ...files, 'Seven.java': 'class Seven { int n = "7"; }' };
    t.match(await outcomeOf('java', code, broken), {
      verdict: 'CE',
      stderr: /^Seven\.java:1: error/,
    });
  },
);

const SAYS = 'public static void main(String[] a) { System.out.print(';
const SIX =
  'package lib; public class Six {\n  public static int six(int n) { return 42 / (n + 1); } }';
const USES_SIX = `package é.日; class First {} public class Program {\n\n${SAYS}lib.Six.six(0) + " " + Program.class.getName()); } }`;

t.test('Java: a package of any letters', async (t) => {
  const outcome = await outcomeOf('java', USES_SIX, { 'lib/Six.java': SIX });
  t.match(outcome, { verdict: 'AC', stdout: '42 é.日.Program', stderr: '' });
});

t.test('Java: a stack trace names the files', async (t) => {
  const divides = USES_SIX.replace('six(0)', 'six(-1)');
  for (const file of ['Six.java', '%41 o?#日.java']) {
    const { verdict, exit_code, stderr } = await outcomeOf('java', divides, {
      [`lib/${file}`]: SIX,
      'Seven.java': 'class Seven {}',
    });
    t.match({ verdict, exit_code }, { verdict: 'RE', exit_code: 1 });
    t.equal(
      stderr.split('\n').slice(1).join('\n'),
      `\tat lib.Six.six(${file}:2)\n\tat é.日.Program.main(Main.java:3)\n`,
    );
  }
});

t.test('Java: files of a package or a module', async (t) => {
  for (const [path, words] of [
    ['lib/package-info.java', '@Deprecated package lib;'],
    ['package-info.java', '@Deprecated package lib;'],
    ['module-info.java', 'module m { requires java.logging; }'],
    ['src/module-info.java', 'module m { }'],
  ] as const) {
    const outcome = await outcomeOf('java', USES_SIX, { 'lib/Six.java': SIX, [path]: words });
    t.match(outcome, { verdict: 'AC', stdout: '42 é.日.Program', stderr: '' }, path);
  }
  for (const [path, words, stderr] of [
    ['module-info.java', 'module m { requires x.y; }', /: error: module not found: x\.y\n/],
    [
      'a-module-info.java',
      'module m { }',
      /: error: module declarations should be in a file named/,
    ],
    ['my-package-info.java', '@Deprecated package lib;', /: error: package annotations should be/],
  ] as const) {
    const outcome = await outcomeOf('java', USES_SIX, { 'lib/Six.java': SIX, [path]: words });
    t.match(outcome, { verdict: 'CE', stderr }, path);
    t.ok(outcome.stderr.startsWith(`${path}:1: error: `), path);
  }
});

t.test('Java: files without a class are classes of their names', async (t) => {
  const javac = await newestJavac();
  if (javac === null) {
    t.pass('classes', { skip: notChecked('no JDK of 25 or newer in /usr/lib/jvm') });
    return;
  }
  const { toolchains } = await findToolchains({
    languages: LANGUAGES.filter(({ name }) => name === 'java'),
    chosen: { java: javac },
  });
  const newer = await anExecutor(t, { toolchains, switches: PLAIN });
  const files = [{ path: 'Six.java', bytes: Buffer.from('void main() { IO.print("not me"); }') }];
  const code = 'void main() { IO.print(getClass().getName()); }';
  const outcome = await newer.run('java', code, { judging: judging({ files }) });
  t.match(outcome, { verdict: 'AC', stdout: 'Main', stderr: '' });
});

/** Null: none takes a main without a class. */
async function newestJavac(): Promise<string | null> {
  for (const name of await readdir('/usr/lib/jvm')) {
    const home = join('/usr/lib/jvm', name);
    const release = await readFile(join(home, 'release'), 'utf8').catch(() => '');
    if (Number(release.match(/^JAVA_VERSION="(\d+)/m)?.[1]) >= 25) return join(home, 'bin/javac');
  }
  return null;
}

t.test('Python: the work folder is first in sys.path, if there are files', async (t) => {
  const code =
    'import sys, random, lib.six\nprint(lib.six.SIX * random.SEVEN, sys.path[0], sys.flags.no_user_site)';
  const files = { 'lib/six.py': 'SIX = 6', 'random.py': 'SEVEN = 7' };
  t.match(await outcomeOf('python', code, files), { verdict: 'AC', stdout: '42 /box 1\n' });
  const listing = 'import os, six; print(sorted(os.listdir()))';
  const { stdout } = await outcomeOf('python', listing, { 'six.py': '' });
  t.equal(stdout, "['main.py', 'six.py']\n", 'an import leaves nothing behind');
  const alone = await run('python', 'import sys; print("/box" in sys.path)');
  t.match(alone, { stdout: 'False\n' }, 'and without files nothing changes');
});

t.test('JavaScript: modules of both kinds', async (t) => {
  const esm =
    "import { six } from './lib/six.mjs';\nimport seven from './seven.cjs';\nconsole.log(six * seven);";
  const files = { 'lib/six.mjs': 'export const six = 6;', 'seven.cjs': 'module.exports = 7;' };
  t.match(await outcomeOf('javascript', esm, files), { verdict: 'AC', stdout: '42\n' });
  const cjs = "console.log(require('./seven.cjs') * 6);";
  t.match(await outcomeOf('javascript', cjs, files), { verdict: 'AC', stdout: '42\n' });
});

t.test('files are there when it runs, in every language', async (t) => {
  const programs: [string, string][] = [
    [
      'c',
      '#include <stdio.h>\nint main(void) { char s[9]; puts(fgets(s, 9, fopen("data/in.txt", "r"))); }',
    ],
    [
      'cpp',
      '#include <fstream>\n#include <iostream>\nint main() { std::cout << std::ifstream("data/in.txt").rdbuf() << "\\n"; }',
    ],
    [
      'java',
      'import java.nio.file.*;\nclass Main { public static void main(String[] a) throws Exception { System.out.println(Files.readString(Path.of("data/in.txt"))); } }',
    ],
    ['python', 'print(open("data/in.txt").read())'],
    ['javascript', 'console.log(require("fs").readFileSync("data/in.txt", "utf8"))'],
  ];
  for (const [language, code] of programs) {
    const outcome = await outcomeOf(language, code, { 'data/in.txt': 'forty-two'.slice(0, 8) });
    t.match(outcome, { verdict: 'AC', stdout: 'forty-tw\n' }, language);
  }
});

t.test('other files are another program to the cache', async (t) => {
  const code = '#include "n.h"\n#include <stdio.h>\nint main(void) { printf("%d\\n", N); }';
  const outputs: string[] = [];
  for (const n of [1, 2, 1])
    outputs.push((await outcomeOf('c', code, { 'n.h': `#define N ${n}` })).stdout);
  t.strictSame(outputs, ['1\n', '2\n', '1\n']);
  const { compile } = await outcomeOf('c', code, { 'n.h': '#define N 2' });
  t.match(compile, { cached: true });
});
