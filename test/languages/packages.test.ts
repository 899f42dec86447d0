/** The packages that `src/local/toolchains.sh` installs: those of the languages that are on, and the launcher's. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';

const ROOT = join(import.meta.dirname, '../..');
const SCRIPT = join(ROOT, 'src/local/toolchains.sh');

/** On a machine with these commands and nothing else, so also without apt. */
function installer(t: Test, commands: Record<string, string>, languages = '') {
  const bin = join(t.testdir(), 'bin');
  mkdirSync(bin);
  for (const [name, target] of Object.entries(commands)) symlinkSync(target, join(bin, name));
  const { status, stderr } = spawnSync('/bin/sh', [SCRIPT], {
    env: { PATH: bin, RUNLEDGER_LANGUAGES: languages },
    encoding: 'utf8',
  });
  t.equal(status, 0, 'it never fails');
  return stderr.replace(/ libc6-dev/, '');
}

const BASE = { node: process.execPath, dirname: '/usr/bin/dirname', id: '/usr/bin/id' };

t.test('by default those of Python, C++ and Java, and a C compiler for the launcher', async (t) => {
  t.match(
    installer(t, BASE),
    /^missing packages; an administrator can install them: apt-get install gcc python3 g\+\+ default-jdk-headless /,
  );
});

t.test('a command that is there needs no package', async (t) => {
  const all = { cc: '/bin/true', python3: '/bin/true', 'g++': '/bin/true', javac: '/bin/true' };
  t.notMatch(installer(t, { ...BASE, ...all }), /missing/);
});

t.test('those of other languages where they are on', async (t) => {
  const said = installer(t, BASE, 'javascript,c,python');
  t.match(said, /apt-get install gcc python3 \(/, 'one package once, and none for JavaScript');
});

t.test('without Node it prints the reason and continues', async (t) => {
  const { dirname, id } = BASE;
  const said = installer(t, { dirname, id });
  t.match(said, /the packages of the languages are not known, because Node 24 is missing/);
  t.match(said, /apt-get install gcc \(/);
});
