// needs: python, cpp
/** A box's files have the bytes of the host's, and no inode is the host's or another slot's. */
import { readFileSync, statSync } from 'node:fs';
import t from 'tap';
import { profilesFor } from '../../src/executor/profiles.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { python, said, withSandbox } from '../executor/box.ts';

const { toolchains } = await findToolchains();
const { sandbox, close } = await withSandbox({
  slots: 2,
  stream_slots: 0,
  // For so many slots the memory allows no copies, so folders are mounted.
  profiles: await profilesFor(toolchains, 100_000),
});
t.teardown(close);
const executable = toolchains.get('python')!.at;

type Seen = { numbers: Record<string, string>; folders: Record<string, string>; mounts: string };
const LOOK = `
import json, os, sys, time
paths = sorted(entry.path for entry in os.scandir(os.path.dirname(os.__file__)) if entry.is_dir())[:20]
numbers = {path: str(os.stat(path).st_ino) for path in (reversed(paths) if sys.argv[1:] else paths)}
folders = {path: str(os.stat(path).st_dev) for path in [os.path.dirname(os.__file__), os.path.realpath(sys.executable)]}
print(json.dumps({"numbers": numbers, "folders": folders, "mounts": open("/proc/self/mountinfo").read()}))
time.sleep(1)`;

if (!readFileSync('/proc/filesystems', 'utf8').includes('overlay') || sandbox.isolation.degraded) {
  t.pass('inodes', { skip: 'this kernel has no overlays, or there is no box' });
} else {
  // Both at the same time, so in two slots.
  const request = { ...python(LOOK), profile: 'python' };
  const reversed = { ...request, argv: [...request.argv, 'reversed'] };
  const reports = await Promise.all([sandbox.run(request), sandbox.run(reversed)]);
  const seen = reports.map((report): Seen => JSON.parse(said(report)));
  const [one, other] = seen as [Seen, Seen];

  t.test('the folders and the executable are on devices of their own', async (t) => {
    t.ok(Object.keys(one.folders).some((path) => path.startsWith(executable)));
    for (const [path, device] of Object.entries(one.folders)) {
      t.not(device, String(statSync(path).dev), `${path}, host`);
      t.not(device, other.folders[path], `${path}, another slot`);
    }
  });

  t.test('the number of a folder does not depend on when a run looked at it first', async (t) => {
    t.ok(Object.keys(one.numbers).length > 5);
    t.same(one.numbers, other.numbers);
  });

  t.test('the mount table names no folder of the machine', async (t) => {
    const overlays = one.mounts.split('\n').filter((line) => line.includes(' - overlay '));
    t.ok(overlays.length >= 2, `${overlays.length} overlays`);
    for (const line of overlays) t.match(line, / - overlay box .*lowerdir=[\w/]+:\.(,|$)/);
  });
}
