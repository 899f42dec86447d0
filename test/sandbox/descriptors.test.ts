/**
 * A source can choose the interpreter of its program, for instance with a section of the binary. The kernel opens it as the
 * process that executes the program, so that process must have no descriptor left that leads out of the box.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { request, text, withSandbox } from '../executor/box.ts';
import { ISOLATION } from './isolation.ts';

const { sandbox, store, close } = await withSandbox({ slots: 1, ...ISOLATION });
t.teardown(close);

let programs = 0;
async function run(interpreter: string) {
  const key = `program${programs++}`;
  await mkdir(join(store, key));
  await writeFile(join(store, key, 'main'), `#!${interpreter}\necho ran\n`, { mode: 0o755 });
  return sandbox.run(request(['/load/main'], { load: [{ key, at: '/load' }] }));
}

t.test('an interpreter in the box runs', async (t) => {
  t.match(text((await run('/bin/sh')).stdout), 'ran');
});

t.test('no descriptor of the process that executes the program is an interpreter', async (t) => {
  for (let descriptor = 3; descriptor < 32; descriptor++)
    for (const inside of ['', '/self/status', '/1/status', '/N']) {
      const path = `/proc/self/fd/${descriptor}${inside}`;
      const { stderr, exit_code } = await run(path);
      t.match({ exit_code, said: text(stderr) }, { exit_code: 126, said: /No such file/ }, path);
    }
});
