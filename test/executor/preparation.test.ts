// needs: cpp
/** What is made ahead of need: a failure by chance is not final, and no stale artefact is used. */
import { access, readdir, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { COMPILE_DEFAULTS } from '../../src/domain/limits.ts';
import { bootId, PREPARED_PREFIX } from '../../src/executor/compile_cache.ts';
import { openCompilers } from '../../src/executor/compilers.ts';
import { openContentCache } from '../../src/executor/content_cache.ts';
import type { Room } from '../../src/executor/disk_full.ts';
import { Preparation } from '../../src/executor/preparation.ts';
import type { BoxRequest, Sandbox } from '../../src/executor/sandbox.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { createCpp } from '../../src/languages/cpp/cpp.ts';
import { anExecutor, PLAIN } from './an_executor.ts';
import { shell, withSmallDisk } from './box.ts';
import { contentStore } from './judgings.ts';

/** The real sandbox, in which the first `failures` programs end at once and leave nothing. */
function failing(sandbox: Sandbox, failures: number): Sandbox {
  let left = failures;
  const run = (request: BoxRequest) =>
    sandbox.run(left-- > 0 ? { ...request, argv: ['/usr/bin/g++', '--no-such-flag'] } : request);
  return new Proxy(sandbox, {
    get: (target, name) => {
      if (name === 'run') return run;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const boot = await bootId();
const preparationIn = (
  artefacts_folder: string,
  sandbox: Pick<Sandbox, 'run'>,
  rooms: readonly Room[] = [],
) => new Preparation({ sandbox, artefacts_folder, boot, rooms });

const step = {
  argv: ['/bin/sh', '-c', 'echo made > it'],
  env: {},
  files: [],
  load: [],
  profile: 'cpp-compile',
  leaves: 'it',
  made_by: 'g++ 12',
};

t.test('a preparation that failed is made at the next request', async (t) => {
  const { sandbox, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const folder = cache.artefacts_folder;
  const preparation = preparationIn(folder, failing(sandbox, 1));
  t.teardown(() => preparation.close());
  const together = await Promise.allSettled([preparation.ensure(step), preparation.ensure(step)]);
  t.strictSame(
    together.map(({ status }) => status),
    ['rejected', 'rejected'],
    'one attempt serves all that wait for it',
  );
  const key = await preparation.ensure(step);
  t.ok((await readdir(folder)).includes(key));
  t.not(await preparation.ensure({ ...step, made_by: 'g++ 13' }), key, 'made by another compiler');

  // Another process finds it, and marks it as used.
  await utimes(join(folder, key), 1, 1);
  const other = preparationIn(folder, failing(sandbox, 1));
  t.teardown(() => other.close());
  t.equal(await other.ensure(step), key);
  while ((await stat(join(folder, key))).mtimeMs < 10_000) await sleep(5);
});

t.test('what something else has removed is made again, once for all that miss it', async (t) => {
  const { sandbox, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const folder = cache.artefacts_folder;
  const preparation = preparationIn(folder, sandbox);
  t.teardown(() => preparation.close());
  const key = await preparation.ensure(step);
  t.equal(await preparation.renew(['other']), false, 'it was not prepared here');
  await rm(join(folder, key), { recursive: true });
  t.strictSame(await Promise.all([preparation.renew([key]), preparation.renew(['other', key])]), [
    true,
    true,
  ]);
  t.ok((await readdir(folder)).includes(key));
  t.equal(await preparation.renew([key]), true, 'somebody else has just made it again');
});

t.test('a renewal that failed is tried again', async (t) => {
  const { sandbox, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const folder = cache.artefacts_folder;
  let fails = false;
  const switched = new Proxy(sandbox, {
    get: (target, name) =>
      name === 'run'
        ? (request: BoxRequest) =>
            target.run(fails ? { ...request, argv: ['/bin/sh', '-c', 'exit 1'] } : request)
        : Reflect.get(target, name, target),
  });
  const preparation = preparationIn(folder, switched);
  t.teardown(() => preparation.close());
  const key = await preparation.ensure(step);
  await rm(join(folder, key), { recursive: true });
  fails = true;
  await t.rejects(preparation.renew([key]), /ended with 1/);
  fails = false;
  t.equal(await preparation.renew([key]), true);
  t.ok((await readdir(folder)).includes(key));
});

t.test('a compile whose prepared headers are gone makes them again', async (t) => {
  const header_sets = [['cstdio']];
  const { executor, cache, run } = await anExecutor(t, { languages: ['cpp'], header_sets });
  await executor.prepared();
  const folder = cache.artefacts_folder;
  const prepared = async () =>
    (await readdir(folder)).filter((name) => name.startsWith(PREPARED_PREFIX));
  const before = await prepared();
  t.equal(before.length, 1);
  await rm(join(folder, before[0]!), { recursive: true });
  const code = '#include <cstdio>\nint main() { puts("42"); }';
  t.match(await run('cpp', code), { verdict: 'AC', stdout: '42\n' });
  t.strictSame(await prepared(), before);
});

t.test(
  'where the store takes nothing, this is said, and it is no fault of a program',
  async (t) => {
    const { sandbox, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
    const preparation = preparationIn(cache.artefacts_folder, sandbox);
    t.teardown(() => preparation.close());
    // Nothing can be stored in a folder that is gone either.
    await rm(cache.artefacts_folder, { recursive: true });
    await t.rejects(preparation.ensure(step), { name: 'SandboxFault', kind: 'no_room' });
  },
);

const not_root = process.getuid?.() !== 0 && 'only root can mount a small disk';
t.test(
  'on a full disk it gets the room of contents that no run holds',
  { skip: not_root },
  async (t) => {
    const { sandbox, store: artefacts_folder, close } = await withSmallDisk();
    t.teardown(close);
    const bounds = { max_bytes: 2 ** 30, max_entries: 10, others: [] };
    const known = contentStore();
    const contents = await openContentCache({
      ...{ folder: artefacts_folder, ...bounds, fetch: known.fetch },
    });
    const half = (name: string) => known.put(name.repeat(600 * 1024)).file;
    const large = { ...step, profile: 'base', argv: shell('head -c 600K /dev/zero > it').argv };
    const preparation = preparationIn(artefacts_folder, sandbox, [contents]);
    t.teardown(() => preparation.close());
    const held = await contents.hold(half('a'));
    await t.rejects(
      preparation.ensure(large),
      { name: 'SandboxFault', kind: 'no_room' },
      'what is held stays',
    );
    await access(held.path);
    held.release();
    const key = await preparation.ensure(large);
    t.strictSame(await readdir(artefacts_folder), [key]);
  },
);

t.test('headers that could not be prepared are prepared later', async (t) => {
  const { sandbox, cache } = await anExecutor(t, { languages: ['cpp'], switches: PLAIN });
  const { toolchains } = await findToolchains({ languages: [createCpp([['cstdio']])] });
  const log: string[] = [];
  const compilers = openCompilers({
    sandbox: failing(sandbox, 2),
    toolchains,
    artefacts_folder: cache.artefacts_folder,
    boot,
    rooms: [cache],
    isOn: () => true,
    compile_limits: COMPILE_DEFAULTS,
    log: (message) => log.push(message),
    retry_ms: 1,
  });
  t.teardown(() => compilers.close());
  await compilers.prepared();
  const ways = async () => {
    const steps = await compilers.open.get('cpp')!.steps({
      main: 'main.cpp',
      code: Buffer.from('#include <cstdio>\n'),
      others: [],
    });
    return steps.map(({ by }) => by);
  };
  while ((await ways()).length === 1) await sleep(5);
  t.strictSame(await ways(), ['headers cstdio', 'plain']);
  t.strictSame(log, [
    'the headers cstdio could not be prepared; the next attempt follows in 0.001 s',
    'the headers cstdio could not be prepared; the next attempt follows in 0.002 s',
  ]);
});
