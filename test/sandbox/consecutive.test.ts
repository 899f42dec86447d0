/**
 * Two consecutive runs in one slot: the second learns nothing about the first and is charged for nothing
 * of it. The first does as much damage as it can; the second is small.
 */
import t from 'tap';
import type { BoxRequest, RunReport } from '../../src/executor/sandbox.ts';
import { type Side, type Topic, works } from './case.ts';
import { openBench, requestFor } from './suite.ts';

const MiB = 1024 * 1024;
/** A small static program is charged for its pages, page tables, kernel stack and work directory. */
const SMALL_BYTES = 4 * MiB;
const SMALL_CPU_US = 100_000;

const bench = await openBench(['cpp']);
t.teardown(() => bench.close());

const cpp = (side: Side, topic: Topic = 'bombs'): BoxRequest =>
  requestFor(bench, side, topic, 'cpp').request;
const side = (program: string, args: string[] = [], limits = {}): Side =>
  works(program, { args, limits });
const run = (request: BoxRequest): Promise<RunReport> => bench.single.run(request);
const said = (report: RunReport) => Buffer.from(report.stdout).toString();

const firsts: readonly [what: string, first: Side][] = [
  ['used 200 MiB', side('memory_touch', ['200'])],
  ['was killed for memory', side('memory_bomb')],
  ['was refused memory', side('memory_refused')],
  ['was killed with memory in many children', side('memory_children')],
  ['filled the disk', side('disk_fill', ['/box', '/tmp', '/dev/shm'])],
  ['used all inodes', side('inode_deep')],
  ['left SysV segments', side('shm_sysv', [])],
  ['left SysV messages', side('messages_sysv', [])],
  ['left POSIX memory', side('shm_posix')],
  ['filled pipes', side('pipe_bomb')],
  ['spun with 16 processes', side('spin_many', ['16'], { cpu_ms: 300 })],
  ['left a spinning orphan', side('orphan_spins')],
  ['left a daemon', side('daemonize')],
  ['had all processes', side('fork_count')],
  ['stopped itself', side('stops_itself', [], { wall_ms: 200 })],
];

for (const [what, first] of firsts) {
  t.test(`after a run that ${what}`, async (t) => {
    await run(cpp(first));
    const next = await run(cpp(side('memory_touch', ['1'])));
    t.match(next, { exit_code: 0, killed_for: null, oom_kills: 0, pids_limit_hits: 0 });
    t.equal(next.memory_refused, 0);
    t.ok(next.memory_peak_bytes < SMALL_BYTES, `memory peak ${next.memory_peak_bytes}`);
    t.ok(next.cpu_us < SMALL_CPU_US, `CPU ${next.cpu_us} µs`);
    t.equal(said(next), 'OK memory\n');
    const room = await run(cpp(side('disk_some')));
    t.equal(said(room), 'OK 16 MiB in the work directory\n', 'the disk is empty again');
    const few = await run(cpp(side('fork_few')));
    t.equal(said(few), 'OK 20 children\n', 'processes are available again');
  });
}

t.test('files, attributes, IPC and keys', async (t) => {
  for (const marker of ['first1a', 'second2b']) {
    const left = said(await run(cpp(side('leave_marker', [marker]), 'files')));
    for (const place of ['in /box', 'in /tmp', 'in /dev/shm']) t.match(left, `OK left ${place}`);
    t.match(left, /^OK left SysV \d+ \d+ \d+$/m, 'the program could leave IPC objects');
    t.match(left, /^OK left POSIX \d+ \d+$/m);
    const found = said(await run(cpp(side('find_marker', [marker]), 'files')));
    t.equal(found, `DENIED nothing left of ${marker}\n`);
  }
});

t.test('sockets: a name that the first run listened on is free, and nothing answers', async (t) => {
  const listen = side('unix_listen', ['@left-behind', 'stay'], { wall_ms: 200 });
  t.match(await run(cpp(listen, 'network')), { killed_for: 'wall' });
  t.match(
    said(await run(cpp(side('unix_connect', ['@left-behind']), 'network'))),
    /^DENIED @left-behind ECONNREFUSED/,
  );
  t.match(said(await run(cpp(side('unix_listen', ['@left-behind']), 'network'))), /^OK listen/);
});

t.test('message queues: what the first run made does not count for the second', async (t) => {
  const limits = { wall_ms: 60_000, cpu_ms: 30_000 };
  for (let each = 0; each < 5; each++)
    t.equal(said(await run(cpp(side('queues_kept', [], limits), 'sharing'))), 'OK all queues\n');
  t.equal(said(await run(cpp(side('queues_found'), 'sharing'))), 'OK 40 queues\n');
});

t.test('a program that changes its own code in memory changes no other run’s code', async (t) => {
  const reports = [
    await run(cpp(side('code_changed'), 'files')),
    await run(cpp(side('code_is_whole'), 'files')),
  ];
  t.equal(said(reports[0]!), 'OK own code changed\n');
  t.equal(said(reports[1]!), 'OK code is whole\n');
});
