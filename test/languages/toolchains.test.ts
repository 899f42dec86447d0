// needs: python, cpp, java, c, javascript
import { chmod, copyFile, mkdir, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t from 'tap';
import { profilesFor } from '../../src/executor/profiles.ts';
import type { Profile } from '../../src/executor/sandbox_options.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';

const find = async (options: Parameters<typeof findToolchains>[0] = {}) => {
  const { toolchains, passed_over } = await findToolchains(options);
  return { ...Object.fromEntries(toolchains), toolchains, passed_over };
};

t.test("the system's own toolchains come before those of PATH", async (t) => {
  const { toolchains } = await findToolchains({ path: t.testdir() });
  const version = (name: string) => toolchains.get(name)!.version;
  t.match(version('python'), /^Python 3\.\d+\.\d+/);
  t.match(version('cpp'), /\d+\.\d+/);
  t.match(version('c'), /^gcc.*\d+\.\d+/);
  t.match(version('java'), /^Java (1[7-9]|[2-9]\d)/);
  t.equal(version('javascript'), `Node ${process.version}`);
  t.match(toolchains.get('python')!.at, /^\/usr\/(local\/)?bin\/python3/);
});

t.test("a version manager's shim is passed over, and doctor can say so", async (t) => {
  const folder = t.testdir();
  const real = (await findToolchains()).toolchains.get('python')!.at;
  const shim = join(folder, 'python3');
  await writeFile(shim, '#!/bin/sh\nexec sleep 100\n');
  await chmod(shim, 0o755);
  const { toolchains, passed_over } = await find({ chosen: { python: shim } });
  t.equal(toolchains.get('python')!.at, real);
  t.strictSame(
    passed_over.filter(({ language }) => language === 'python'),
    [{ language: 'python', candidate: shim, why: 'a script (a version manager?), not a program' }],
  );
});

t.test('a program that is something else is passed over', async (t) => {
  const chosen = { python: '/usr/bin/false', cpp: '/usr/bin/true', c: '/usr/bin/true' };
  const { toolchains, passed_over } = await find({ chosen });
  for (const name of Object.keys(chosen)) t.ok(toolchains.has(name), `${name}: the next is taken`);
  const names = passed_over.map(({ candidate }) => basename(candidate)).sort();
  t.strictSame(names, ['false', 'true', 'true']);
});

t.test('a linker that is switched off is not used', async (t) => {
  const { toolchains } = await findToolchains({ switches: { mold: false } });
  for (const name of ['c', 'cpp']) {
    const { notes, compiler } = toolchains.get(name)!;
    t.notMatch(compiler!.recipe, /-fuse-ld=mold/);
    t.match(notes![0], { check: 'linker', found: /.+; mold links in half the time/ });
  }
});

t.test('another file of a compiler makes another recipe, whatever version it names', async (t) => {
  const recipesWith = async (chosen: Record<string, string>) => {
    const languages = LANGUAGES.filter(({ name }) => name in chosen);
    const { toolchains } = await findToolchains({ languages, chosen });
    return [...toolchains.values()].map(({ at, version, compiler }) => ({
      ...{ at, version },
      recipe: compiler!.recipe,
    }));
  };
  const copy = join(t.testdir(), 'g++');
  const install = async () => {
    await rm(copy, { force: true });
    await copyFile(await realpath('/usr/bin/g++'), copy);
  };
  await install();
  const [before] = await recipesWith({ cpp: copy });
  const [same] = await recipesWith({ cpp: copy });
  t.equal(before!.at, copy);
  t.equal(same!.recipe, before!.recipe);
  await install();
  const [after] = await recipesWith({ cpp: copy });
  t.equal(after!.version, before!.version);
  t.not(after!.recipe, before!.recipe);
  const inode = async (path: string) => `${(await stat(path)).ino}`;
  const [c] = await recipesWith({ c: '/usr/bin/gcc' });
  const [java] = await recipesWith({ java: '/usr/bin/javac' });
  t.ok(c!.recipe.includes(await inode('/usr/include/features.h')), 'the headers of libc');
  t.ok(java!.recipe.includes(await inode(join(java!.at, 'lib/modules'))), 'the classes of the JDK');
});

t.test('two languages never have one recipe', async (t) => {
  const { toolchains } = await findToolchains();
  const recipes = [...toolchains.values()].flatMap(({ compiler }) => compiler?.recipe ?? []);
  t.equal(new Set(recipes).size, recipes.length);
});

/** Everything that a profile shows, by its path in the box. */
const seenIn = ({
  mounts,
  copies = [],
  own = [],
  trees = [],
  fronts = [],
  links = [],
}: Profile) => [
  ...[...mounts, ...copies, ...own, ...trees, ...fronts].map(({ to }) => to),
  ...links.map(({ at }) => at),
];
const BASE =
  /^\/(bin|lib|lib32|lib64|libx32|etc\/ld\.so\.cache|usr\/lib\/locale(\/.+)?|usr\/share\/zoneinfo|usr\/lib64\/ld-[\w.-]+|usr\/lib(64|\/[\w-]+-linux-gnu)\/([\w.+-]+\.so[\d.]*|gconv(\/.+)?)|usr\/bin\/(sh|dash|bash|cat|echo|env|false|id|ls|sleep|true|wc|coreutils))$/;
const OWN: Readonly<Record<string, RegExp>> = {
  python: /^\/usr\/(bin\/python3[.\d]*|lib\/python3[.\d]*(\/dist-packages)?(\/.+\.so)?)$/,
  java: /^\/((usr\/lib\/jvm\/[\w.-]+|opt\/java\/\w+)\/(bin|conf|lib|release)(\/.+)?|etc\/(java[\w-]*|ssl\/certs\/java))$/,
  javascript: /^\/opt\/(node\/node|blocking_output\.cjs)$/,
  compile:
    /^\/usr\/(include|lib\/[\w-]+-linux-gnu|lib64|lib(exec)?\/gcc\/.+|bin\/([\w-]*-)?((gcc|g\+\+)(-\d+)?|as|ld(\.\w+)?|mold|gold|lld))$/,
};

t.test('a box sees what its language needs, and nothing else of the machine', async (t) => {
  const { toolchains } = await findToolchains();
  const profiles = await profilesFor(toolchains);
  t.strictSame(Object.keys(profiles).sort(), [
    ...['c', 'c-compile', 'cpp', 'cpp-compile', 'java', 'javascript', 'python'],
  ]);
  for (const [name, profile] of Object.entries(profiles)) {
    const own = OWN[name.replace(/^\w+-/, '')] ?? /nothing/;
    const seen = seenIn(profile);
    t.strictSame(
      seen.filter((path) => !BASE.test(path) && !own.test(path)),
      [],
      name,
    );
    t.ok(seen.includes('/usr/bin/sh'), `${name} has a shell`);
    for (const { target } of profile.links ?? []) t.notMatch(target, /^\/etc/, 'no link leads out');
  }
  const compiler = seenIn(profiles['cpp-compile']!);
  t.ok(compiler.includes('/usr/include') && compiler.includes('/usr/bin/g++'));
});

t.test("of this clone, JavaScript's box sees only Node and its preloaded file", async (t) => {
  const { toolchains } = await findToolchains();
  const { mounts } = toolchains.get('javascript')!;
  const clone = join(import.meta.dirname, '../..');
  const own: Readonly<Record<string, RegExp>> = {
    '/opt/node/node': /\/node_modules\/node-linux-\w+\/bin\/node$/,
    '/opt/blocking_output.cjs': /\/src\/languages\/javascript\/blocking_output\.cjs$/,
  };
  for (const { from, to } of mounts.filter(({ from }) => from.startsWith(clone))) {
    t.match(from, own[to] ?? /nothing/, to);
  }
});

t.test('a toolchain that would show the home folder, or one of ours, is passed over', async (t) => {
  const home = join(t.testdir({ bin: {}, lib: {}, '.data': {} }));
  const python = await realpath('/usr/bin/python3');
  const chosen = { python: join(home, 'bin/python3'), cpp: join(home, 'bin/g++') };
  await copyFile(python, chosen.python);
  await copyFile(await realpath('/usr/bin/g++'), chosen.cpp);
  const library = basename(python);
  await symlink(join('/usr/lib', library), join(home, 'lib', library));
  const languages = LANGUAGES.filter(({ name }) => name in chosen);
  const found = async (private_folders: readonly string[]) => {
    const { toolchains, passed_over } = await findToolchains({
      languages,
      chosen,
      private_folders,
    });
    return {
      at: [...toolchains.values()].map(({ at }) => at).sort(),
      why: passed_over.map(({ candidate, why }) => `${candidate}: ${why}`).sort(),
    };
  };
  const own = Object.values(chosen).sort();
  t.strictSame(await found([]), { at: own, why: [] }, 'in a folder of its own');
  const refused = (hidden: string) => ({
    at: ['/usr/bin/g++', '/usr/bin/python3'],
    why: own.map(
      (path) =>
        `${path}: programs would see all of ${home}, and with it ${hidden}: install it in a folder of its own`,
    ),
  });
  const below_lib = await findToolchains({ private_folders: ['/usr/lib/runledger/.data'] });
  t.strictSame(below_lib.passed_over, [], 'of /lib a box has the link alone');
  t.strictSame(await found([join(home, '.data')]), refused(join(home, '.data')));
  const before = process.env['HOME'];
  t.teardown(() => {
    process.env['HOME'] = before;
  });
  process.env['HOME'] = home;
  t.strictSame(await found([]), refused(home));
  process.env['HOME'] = join(home, 'bin');
  const { at } = await found([]);
  t.notOk(at.includes(chosen.cpp), 'the folder of the compiler itself');
});

t.test('tools outside the system folders are mounted where they are', async (t) => {
  const folder = t.testdir();
  await mkdir(join(folder, 'none'));
  const { toolchains } = await findToolchains({ chosen: { java: join(folder, 'none/bin/javac') } });
  t.ok(toolchains.has('java'), 'a folder without a JDK does not hide that of the system');
  const froms = [...toolchains.values()].flatMap(({ mounts }) => mounts.map(({ from }) => from));
  t.notOk(froms.includes(folder));
});
