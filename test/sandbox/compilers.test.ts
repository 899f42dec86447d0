// needs: c
/** The launcher is built by the compiler of the machine, which `make` cannot choose. A part of it stands for all. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';

const FOLDER = join(import.meta.dirname, '../../src/sandbox');

/** A compiler that adds something of its own before our options. */
function build(t: Test, added: string, target: string) {
  const folder = t.testdir({
    sandbox: {},
    strict: {},
    'noise.h': '#warning "new in this compiler"\n',
  });
  const cc = join(folder, 'cc');
  writeFileSync(cc, `#!/bin/sh\nexec cc ${added.replace('FOLDER', folder)} "$@"\n`, {
    mode: 0o755,
  });
  mkdirSync(join(folder, 'strict/sandbox'));
  const words = ['-s', '-C', FOLDER, target.replace('FOLDER', folder)];
  const made = spawnSync('make', [...words, `BUILD=${folder}`, `CC=${cc}`], { encoding: 'utf8' });
  return { ...made, folder };
}

t.test('a compiler with a _FORTIFY_SOURCE of its own builds it, without a warning', async (t) => {
  const { status, stderr, folder } = build(t, '-D_FORTIFY_SOURCE=3', 'FOLDER/zygote.so');
  t.equal(status, 0, stderr);
  t.equal(stderr, '');
  t.ok(existsSync(join(folder, 'zygote.so')));
});

t.test('a warning does not keep a machine from building it', async (t) => {
  const { status, stderr } = build(t, '-include FOLDER/noise.h', 'FOLDER/sandbox/wire.o');
  t.equal(status, 0, stderr);
  t.match(stderr, /new in this compiler/, 'it is printed');
});

t.test('a warning fails our own check', async (t) => {
  const { status, stderr } = build(t, '-include FOLDER/noise.h', 'strict');
  t.not(status, 0);
  t.match(stderr, /new in this compiler.*Werror/);
});
