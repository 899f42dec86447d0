/** A slot makes the next box before its request: the run in it is like one in a box that is made for it. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { RunReport } from '../../src/executor/sandbox.ts';
import { MiB, python, ROOT, request, said, shell, text, withSandbox } from '../executor/box.ts';
import { commandOf, isAlive, within } from '../executor/processes.ts';
import { childrenOf } from '../support/processes.ts';
import { ISOLATION } from './isolation.ts';

/** For what must come. Only a test that fails waits so long. */
const PATIENCE_MS = 120_000;

const { sandbox, close } = await withSandbox({
  ...ISOLATION,
  slots: 1,
  stream_slots: 0,
  profiles: { base: ROOT, other: ROOT },
});
t.teardown(close);

if (sandbox.isolation.degraded) t.bailout('this isolation has no boxes');

const slot = () => childrenOf(sandbox.isolation.pid)[0]!;
/** The inits of boxes that wait: below each is a process that is not yet a program. */
const inits = () =>
  childrenOf(slot()).filter((init) =>
    childrenOf(init).some((pid) => commandOf(pid) === commandOf(sandbox.isolation.pid)),
  );

/** Makes a new box wait, by two runs of its profile, and returns its init. */
async function ready(profile = 'base'): Promise<number> {
  const [before] = inits();
  for (let runs = 0; runs < 2; runs++) await sandbox.run(shell('true', { profile }));
  let found = before;
  await within(PATIENCE_MS, () => {
    [found] = inits();
    return found !== undefined && found !== before;
  });
  return found!;
}

/** The init of the run that this starts and ends. */
async function initOfRun(profile = 'base'): Promise<number | undefined> {
  const limits = { wall_ms: 2 * PATIENCE_MS };
  const end = sandbox.run(request(['/usr/bin/sleep', '600'], { profile, limits }));
  const programOf = (init: number) =>
    childrenOf(init).find((pid) => commandOf(pid) === '/usr/bin/sleep 600');
  const init = () => childrenOf(slot()).find(programOf);
  await within(PATIENCE_MS, () => init() !== undefined);
  const found = init();
  if (found !== undefined) process.kill(programOf(found)!, 'SIGKILL');
  await end;
  return found;
}

t.test('a run is in the box that waited, and the next one in another', async (t) => {
  const first = await ready();
  t.equal(await initOfRun(), first, 'the box that was ready');
  t.ok(await within(PATIENCE_MS, () => inits().length === 1), 'the next one waits');
  t.not(inits()[0], first);
});

t.test('a compile or a run of another profile leaves it alone', async (t) => {
  const waits = await ready();
  t.not(await initOfRun('other'), waits);
  await sandbox.run(
    shell('echo x >out', {
      profile: 'other',
      save: { key: 'k1', paths: ['out'], max_bytes: 999, max_files: 9 },
    }),
  );
  t.same(inits(), [waits], 'the same box waits');
  t.equal(await initOfRun(), waits);
});

t.test('it is replaced when two runs of another profile follow each other', async (t) => {
  const before = await ready();
  const after = await ready('other');
  t.not(after, before);
  t.ok(await within(PATIENCE_MS, () => !isAlive(before)));
  t.equal(await initOfRun('other'), after);
});

t.test('a run in it sees and may do what any other may', async (t) => {
  const facts = `
id; pwd; ls -la / /box /tmp /dev/shm /load2 /dev/fd/; cat /proc/self/status /proc/self/limits
cut -d' ' -f4- /proc/self/mountinfo
cat /proc/self/oom_score_adj; echo $$ $PPID; env; cat; stat -f /box /tmp | grep -v ID
echo x 2>&1 >/proc/self/comm`;
  const parts = { stdin: 'in', limits: { disk_bytes: 9 * MiB, inodes: 77, files: 33 } };
  // What differs from run to run, whether or not the box was ready.
  const steady = (report: RunReport) =>
    text(report.stdout)
      .split('\n')
      .filter((line) => !/ proc$|^Vm|^Rss|_ctxt_switches|^Cpus|^Mems|^HugetlbPages/.test(line))
      .map((line) => line.replace(/[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d/, 'DATE').replace(/-> .*/, ''))
      .join('\n');
  // After a run of another profile and with a single slot, the first is plain.
  await ready('other');
  const plain = await sandbox.run(shell(facts, parts));
  const waits = await ready();
  const at_once = await sandbox.run(shell(facts, parts));
  t.ok(await within(PATIENCE_MS, () => !isAlive(waits)), 'it was in the box that waited');
  t.equal(steady(at_once), steady(plain));
  t.equal(text(at_once.stderr), text(plain.stderr));
  t.equal(at_once.exit_code, plain.exit_code);
});

t.test('each run in one has its own limits', async (t) => {
  for (const kib of [64, 4096, 512]) {
    await ready();
    const script = `head -c ${(kib + 64) * 1024} /dev/zero >f; stat -c %s f`;
    const report = await sandbox.run(shell(script, { limits: { disk_bytes: kib * 1024 } }));
    t.ok(Number(said(report)) <= kib * 1024 && Number(said(report)) > 0, `${kib}: ${said(report)}`);
    await ready();
    const files = `n=0; while : >f$n; do n=$((n + 1)); done; echo $n`;
    const many = await sandbox.run(
      shell(`(${files}) 2>/dev/null; ls | wc -l`, { limits: { inodes: kib / 8 } }),
    );
    t.equal(said(many), String(kib / 8));
    await ready();
    const forks = `import os
n = 0
try:
  while True:
    if os.fork() == 0: os.read(0, 1) or os._exit(0)
    n += 1
except OSError: print(n)`;
    const processes = 4 + kib / 64;
    const forked = await sandbox.run(
      request(['/usr/bin/python3', '-c', forks], { limits: { processes } }),
    );
    t.equal(said(forked), String(processes - 1));
  }
});

t.test('artefacts, files and what is kept', async (t) => {
  const saved = await sandbox.run(
    shell('echo made >out', { save: { key: 'k2', paths: ['out'], max_bytes: 999, max_files: 9 } }),
  );
  t.equal(saved.exit_code, 0);
  await ready();
  const files = [{ path: 'a/b.txt', bytes: Buffer.from('written') }];
  const report = await sandbox.run(
    shell('cat /load/out a/b.txt; ls -A', { files, load: [{ key: 'k2', at: '/load' }] }),
  );
  t.equal(text(report.stdout), 'made\nwritten' + 'a\n');
  await ready();
  t.equal(said(await sandbox.run(shell('ls -A; ls /load'))), '', 'nothing is left of it');
});

for (const which of ['init', 'program'] as const)
  t.test(`the slot does without a box whose ${which} was killed`, async (t) => {
    const init = await ready();
    const victim = which === 'init' ? init : childrenOf(init)[0]!;
    process.kill(victim, 'SIGKILL');
    t.ok(await within(PATIENCE_MS, () => !isAlive(init)), 'the box is gone');
    for (let runs = 0; runs < 3; runs++) t.equal(said(await sandbox.run(shell('echo ok'))), 'ok');
    t.ok(await within(PATIENCE_MS, () => inits().length === 1), 'and makes another');
  });

t.test('a small process limit stops neither the next box nor another run', async (t) => {
  const warm = (processes: number) =>
    sandbox.run(python('print(1)', { zygote: { account: 'a' }, limits: { processes } }));
  let hits = 0;
  for (let round = 0; round < 20; round++) {
    for (let runs = 0; runs < 2; runs++) await sandbox.run(shell('true'));
    await warm(1);
    t.ok(await within(PATIENCE_MS, () => inits().length > 0), 'a box is made');
    hits += (await warm(64)).pids_limit_hits;
    await sleep(5); // a pause, in which the slot starts interpreters
  }
  t.equal(hits, 0);
});

t.test('/load2 is empty, and nobody can write to it', async (t) => {
  for (const box of ['plain', 'ready']) {
    const report = await sandbox.run(
      shell('ls -A /load2; echo x >/load2/new', { profile: box === 'plain' ? 'other' : 'base' }),
    );
    t.equal(said(report), '');
    t.not(report.exit_code, 0, box);
    await ready();
  }
});
