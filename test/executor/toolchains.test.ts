// needs: python, cpp, java
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t from 'tap';
import { profilesFor } from '../../src/executor/profiles.ts';
import { findToolchains } from '../../src/executor/toolchains.ts';

t.test("the system's own come before what PATH has", async (t) => {
  const folder = t.testdir();
  const found = await findToolchains({ path: folder });
  t.match(found.python, { language: 'python', version: /^3\.\d+\.\d+/ });
  t.match(found.cpp, { language: 'cpp', version: /\d+\.\d+/ });
  t.match(found.java, { language: 'java', version: /^\d+/ });
  t.ok(found.java!.feature >= 17);
  t.match(found.python!.executable, /^\/usr\/(local\/)?bin\/python3/);
});

t.test("a version manager's shim is passed over, and said to be", async (t) => {
  const folder = t.testdir();
  const real = (await findToolchains()).python!.executable;
  const shim = join(folder, 'python3');
  await writeFile(shim, '#!/bin/sh\nexec sleep 100\n');
  await chmod(shim, 0o755);
  const found = await findToolchains({ python: shim });
  t.equal(found.python!.executable, real);
  t.strictSame(
    found.passed_over.filter(({ language }) => language === 'python'),
    [{ language: 'python', candidate: shim, why: 'a script (a version manager?), not a program' }],
  );
});

t.test('what cannot answer is passed over', async (t) => {
  const found = await findToolchains({ python: '/usr/bin/false', cxx: '/usr/bin/true' });
  t.ok(found.python, 'the next is taken');
  t.ok(found.cpp);
  const names = found.passed_over.map(({ candidate }) => basename(candidate)).sort();
  t.strictSame(names, ['false', 'true']);
});

t.test('a linker that is switched off, or not there, is not taken', async (t) => {
  const found = await findToolchains({ mold: false });
  t.not(found.cpp!.linker, 'mold');
  t.ok(found.cpp!.linker_version.length > 0);
});

t.test('a box sees the system, the chosen tools, and nothing else of the machine', async (t) => {
  const profiles = await profilesFor(await findToolchains());
  t.strictSame(Object.keys(profiles), ['python', 'cpp', 'java']);
  for (const { mounts, copies = [], links = [] } of Object.values(profiles)) {
    const seen = [
      ...mounts.map(({ to }) => to),
      ...copies.map(({ to }) => to),
      ...links.map(({ at }) => at),
    ];
    t.ok(seen.includes('/usr'));
    const allowed =
      /^\/(usr|bin|lib|lib32|lib64|libx32|opt\/java\/\w+|etc\/(ld\.so\.cache|java[\w-]*|ssl\/certs\/java))$/;
    for (const path of seen) t.match(path, allowed);
    for (const { target } of links) t.notMatch(target, /^\/etc|\.\./, 'no link leads out');
  }
});

t.test('tools outside the system folders are mounted where they lie', async (t) => {
  const folder = t.testdir();
  await mkdir(join(folder, 'none'));
  const { python } = await findToolchains();
  t.notOk(python!.mounts.includes(folder));
  const gone = await findToolchains({ java_home: join(folder, 'none') });
  t.ok(gone.java, 'a folder without a JDK does not hide the one of the system');
});
