/** The packages that `src/local/toolchains.sh` installs: those of the languages that are on, and the launcher's. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';

const ROOT = join(import.meta.dirname, '../..');
const SCRIPT = join(ROOT, 'src/local/toolchains.sh');
const COMMON = join(ROOT, 'src/languages/common');

/** On a machine with these commands, links or scripts, and nothing else, so also without apt. */
function installer(t: Test, commands: Record<string, string>, languages = '', mode?: string) {
  const bin = join(t.testdir(), 'bin');
  mkdirSync(bin);
  for (const [name, target] of Object.entries(commands)) {
    if (target.startsWith('#!')) writeFileSync(join(bin, name), target, { mode: 0o755 });
    else symlinkSync(target, join(bin, name));
  }
  const { status, stderr } = spawnSync('/bin/sh', [SCRIPT, ...(mode ? [mode] : [])], {
    env: { PATH: bin, RUNLEDGER_LANGUAGES: languages },
    encoding: 'utf8',
  });
  t.equal(status, mode === 'check' && stderr !== '' ? 1 : 0, 'it never fails, but as a check');
  return stderr.replace(/ libc6-dev/, '');
}

const BASE = { dirname: '/usr/bin/dirname', id: '/usr/bin/id' };

t.test('the list of packages is that of the languages', async (t) => {
  const { stdout } = spawnSync(process.execPath, [join(COMMON, 'packages.ts')], {
    encoding: 'utf8',
  });
  t.equal(readFileSync(join(COMMON, 'packages.txt'), 'utf8'), stdout);
});

t.test('by default those of Python, C++ and Java, and a C compiler for the launcher', async (t) => {
  t.equal(
    installer(t, BASE),
    'missing packages, so these will not run: python cpp java; an administrator can install them: ' +
      'apt-get install gcc python3 g++ default-jdk-headless (continuing without)\n',
  );
});

t.test('of several packages, the first is named that this release has', async (t) => {
  const has17 = '#!/bin/sh\n[ "$2" = openjdk-17-jdk-headless ]\n';
  t.match(
    installer(t, { ...BASE, 'apt-cache': has17 }, 'java'),
    /apt-get install gcc openjdk-17-jdk-headless \(/,
  );
});

t.test('it names only the languages that will not run', async (t) => {
  const some = { cc: '/bin/true', python3: '/bin/true', javac: '/bin/true' };
  t.match(installer(t, { ...BASE, ...some }), /will not run: cpp;.* apt-get install g\+\+ \(/);
});

t.test('asked for languages alone, it prints nothing where each will run', async (t) => {
  const all = { python3: '/bin/true', 'g++': '/bin/true', javac: '/bin/true' };
  t.equal(installer(t, { ...BASE, ...all }, '', 'languages'), '');
  t.match(installer(t, BASE, '', 'languages'), /will not run: python cpp java;.* gcc python3/);
  t.equal(installer(t, BASE, '', 'compiler'), '');
});

t.test('as a check, it fails where something needed is missing', async (t) => {
  const all = { cc: '/bin/true', python3: '/bin/true', 'g++': '/bin/true', javac: '/bin/true' };
  t.equal(installer(t, { ...BASE, ...all }, '', 'check'), '', 'mold is optional');
  const { javac: _, ...others } = all;
  t.match(
    installer(t, { ...BASE, ...others }, '', 'check'),
    /will not run: java; apt-get could not/,
  );
  t.equal(installer(t, { ...BASE, ...others }, 'python,cpp', 'check'), '');
});

t.test('a command that is there needs no package', async (t) => {
  const all = { cc: '/bin/true', python3: '/bin/true', 'g++': '/bin/true', javac: '/bin/true' };
  t.notMatch(installer(t, { ...BASE, ...all }), /will not run/);
});

t.test('those of other languages where they are on', async (t) => {
  const said = installer(t, BASE, 'javascript, c,python');
  t.match(said, /will not run: python c;/, 'JavaScript needs none');
  t.match(said, /apt-get install gcc python3 \(/, 'one package once');
});

t.test('a network that is reached through a proxy is so for apt as root, too', async (t) => {
  const bin = join(t.testdir(), 'bin');
  mkdirSync(bin);
  const seen = join(bin, 'seen');
  const words = join(bin, 'words');
  const commands = {
    id: 'echo 1000',
    // As sudo does, it lets no variable through that is not named. Its words are seen by everybody, and logged.
    sudo: `echo "$*" >>${words}
      while :; do
        case "$1" in
          -n) ;;
          --preserve-env=http_proxy) a="http_proxy=$http_proxy" ;;
          --preserve-env=https_proxy) b="https_proxy=$https_proxy" ;;
          --preserve-env=no_proxy) c="no_proxy=$no_proxy" ;;
          *) break ;;
        esac
        shift
      done
      exec env -i PATH="$PATH" \${a:+"$a"} \${b:+"$b"} \${c:+"$c"} "$@"`,
    'apt-get': `echo "$http_proxy|$https_proxy|$no_proxy" >>${seen}`,
    'apt-cache': 'true',
  };
  for (const [name, body] of Object.entries(commands))
    writeFileSync(join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  for (const name of ['dirname', 'env', 'true', 'mktemp', 'rm', 'grep', 'tail'])
    symlinkSync(`/usr/bin/${name}`, join(bin, name));
  const proxies = {
    http_proxy: 'http://user:secret@a:1',
    https_proxy: 'http://b:2',
    no_proxy: 'c, d',
  };
  for (const script of [SCRIPT, join(ROOT, 'test/support/install_browser.sh')]) {
    for (const [env, line] of [
      [proxies, 'http://user:secret@a:1|http://b:2|c, d'],
      [{}, '||'],
    ] as const) {
      const { status } = spawnSync('/bin/sh', [script], { env: { PATH: bin, ...env } });
      t.equal(status, 0);
      const lines = readFileSync(seen, 'utf8').trim().split('\n');
      t.same([...new Set(lines)], [line], script);
      rmSync(seen);
    }
  }
  t.notMatch(readFileSync(words, 'utf8'), /secret/, 'no address of a proxy is a word of a command');
});
