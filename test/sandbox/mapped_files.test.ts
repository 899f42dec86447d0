// needs: python, java, c, javascript
/**
 * A futex on a mapping of a file belongs to the file's inode. So one slot can end another's wait exactly where both map the
 * same file of the machine. There each could also keep the lock of the file's mappings busy, and stop the other.
 */
import { chmodSync, existsSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { profilesFor } from '../../src/executor/profiles.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { MiB, ROOT, request, said, shell, text, withSandbox } from '../executor/box.ts';

const { toolchains } = await findToolchains();
const { sandbox, close } = await withSandbox({
  slots: 2,
  stream_slots: 0,
  profiles: await profilesFor(toolchains),
});
t.teardown(close);

const overlays = readFileSync('/proc/filesystems', 'utf8').includes('overlay');
const skip = overlays && !sandbox.isolation.degraded ? false : 'no overlays, or no box';
const limits = { memory_bytes: 512 * MiB, processes: 256, files: 512, wall_ms: 60_000 };
const load = [{ key: 'futexes', at: '/load' }];
const at = (name: string) => toolchains.get(name)!.at;

const PYTHON = `import ctypes, decimal, json, locale, sqlite3, ssl, zlib
print(open("/proc/self/maps").read())`;
const JAVA = `class Main {
  public static void main(String[] args) throws Exception {
    java.net.InetAddress.getLoopbackAddress();
    System.out.println(java.nio.file.Files.readString(java.nio.file.Path.of("/proc/self/maps")));
  }
}`;
const JAVASCRIPT = 'console.log(require("fs").readFileSync("/proc/self/maps", "utf8"))';

type Row = {
  profile: string;
  argv: string[];
  source?: [path: string, text: string];
  shared: RegExp;
};
const NOTHING = /^$/;
/** A program could map these, too. */
const libraries = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
const others = ['/usr/share/zoneinfo/tzdata.zi', `${libraries}/gconv/UTF-16.so`].filter((path) =>
  existsSync(path),
);
/** What a program of each profile maps, by its own account. */
const rows: readonly Row[] = [
  { profile: 'c', argv: ['/load/futexes', 'maps'], shared: NOTHING },
  {
    profile: 'python',
    argv: [at('python'), '-I', '/box/main.py'],
    source: ['main.py', PYTHON],
    shared: NOTHING,
  },
  {
    profile: 'java',
    argv: [join(at('java'), 'bin/java'), '-Xmx128m', '/box/Main.java'],
    source: ['Main.java', JAVA],
    shared: /\/lib\/modules$/,
  },
  {
    profile: 'javascript',
    argv: ['/opt/node/node', '/box/main.js'],
    source: ['main.js', JAVASCRIPT],
    shared: NOTHING,
  },
];

t.test('a copied folder has what everybody may read, and nothing else', { skip }, async (t) => {
  const from = t.testdir({
    open: 'open',
    run: '#!/bin/sh\necho ran',
    closed: 'closed',
    folder: { open: 'inner' },
    hidden: { open: 'hidden' },
    link: t.fixture('symlink', 'folder/open'),
  });
  chmodSync(join(from, 'run'), 0o755);
  chmodSync(join(from, 'closed'), 0o640);
  chmodSync(join(from, 'hidden'), 0o750);
  utimesSync(join(from, 'open'), 1_000_000, 1_000_000);
  const trees = [{ from, to: '/opt/tree' }];
  const folder = await withSandbox({
    stream_slots: 0,
    // The second profile's copy is a link to that of the first.
    profiles: { first: { ...ROOT, trees }, base: { ...ROOT, trees } },
  });
  t.teardown(folder.close);
  for (const profile of ['first', 'base']) {
    const look = 'cd /opt/tree; ls; cat folder/open link; stat -c " %Y" open; ./run; echo > open';
    const report = await folder.sandbox.run(shell(look, { profile }));
    t.equal(text(report.stdout), 'folder\nlink\nopen\nrun\ninnerinner 1000000\nran\n', profile);
    t.match(text(report.stderr), /Read-only file system/);
  }
});

t.test('programs of two slots map no file of the machine', { skip }, async (t) => {
  const source = readFileSync(join(import.meta.dirname, 'programs/c/futexes.c'));
  const compiled = await sandbox.run(
    request([at('c'), '-O1', '-o', 'futexes', 'main.c'], {
      profile: 'c-compile',
      files: [{ path: 'main.c', bytes: source }],
      save: { key: 'futexes', paths: ['futexes'], max_bytes: MiB, max_files: 1 },
      limits,
    }),
  );
  t.match(compiled, { exit_code: 0, saved: { files: 1 } }, text(compiled.stderr));
  for (const { profile, argv, source, shared } of rows) {
    const files = source ? [{ path: source[0], bytes: Buffer.from(source[1]) }] : [];
    const run = async (argv: string[]) => {
      const report = await sandbox.run(request(argv, { profile, files, load, limits }));
      t.equal(report.exit_code, 0, `${profile}: ${text(report.stderr)}`);
      return said(report);
    };
    const table = await run(argv);
    const mapped = [...new Set(table.match(/(?<= )\/\S+$/gm))].filter(
      (path) =>
        !path.startsWith('/load/') && !path.startsWith('/box/') && !path.startsWith('/tmp/'),
    );
    t.match(mapped.join('\n'), /libc\.so/, `${profile}: ${mapped.length} files`);
    mapped.push(...others.filter((path) => !mapped.includes(path)));
    const [waited, woke] = await Promise.all([
      run(['/load/futexes', 'wait', ...mapped]),
      run(['/load/futexes', 'wake', ...mapped]),
    ]);
    t.match(waited, /done$/);
    const reached = woke.match(/(?<=woke: ).*/g) ?? [];
    t.strictSame(
      reached.filter((path) => !shared.test(path)),
      [],
      `${profile}: none is shared`,
    );
    const both = await run(['/load/futexes', 'both', ...mapped]);
    for (const path of mapped) t.match(both, `woke: ${path}\n`, 'in one box a wake arrives');
  }
});
