/**
 * Which cases `make test` runs in guest machines (test/_first/guest.test.ts). There every program is emulated, so it leaves out
 * those whose claim holds by the same means as outside, or as in the other guest. They are named here with those means; every
 * other case runs, and so does each new one. `make sandbox-test-v2` runs all of them.
 */
import type { Topic } from './case.ts';

/** As whom: root of the machine, or an ordinary user to whom systemd has delegated a group. */
export type As = 'root' | 'user';

type Same = { topic: Topic; names: readonly string[] | 'all'; means: string };

const PIPES: Same = {
  topic: 'output',
  names: 'all',
  means: 'the launcher’s pipes, which know nothing of groups and users',
};

const REFUSALS = [
  'a refusal of its own making',
  'refused memory, caught',
  'refusals without end',
  'more than four times the limit',
];

/** Left out of both guests. */
const FILTERED: Same = {
  topic: 'sharing',
  names: [
    'eviction of cached pages',
    'view of cached pages',
    'locks',
    'disks',
    'asynchronous I/O',
    'load of the machine',
    'questions to the slot',
    'space of the machine',
    'merged pages',
    'huge pages',
    'processors of others',
    'interrupts of others',
    'choice of processors',
    'kernel memory that is charged to nobody',
    'limits of other processes',
    'counters of the machine',
    'processes of the machine',
    'locked segments',
    'seals of files in memory',
    'pages given to a pipe',
  ],
  means: 'the one filter, and what the slot answers instead of the kernel',
};

export const SAME: Readonly<Record<As, readonly Same[]>> = {
  root: [
    PIPES,
    FILTERED,
    { topic: 'kernel', names: 'all', means: 'the one filter, and the rights that root gives up' },
    { topic: 'network', names: 'all', means: 'the filter, and the namespaces that root makes' },
    { topic: 'bombs', names: REFUSALS, means: 'the filter’s questions to the launcher' },
    {
      topic: 'bombs',
      names: [
        'locked memory',
        'endless recursion',
        'disk bomb in one file',
        'disk bomb in /tmp',
        'disk bomb of many files',
        'disk bomb without a name',
        'sparse file of 1 TiB',
        'inode bomb of files',
        'inode bomb of nested directories',
        'inode bomb of symbolic links',
        'inode bomb of hard links',
        'descriptor bomb',
        'descriptors in flight',
        'socket buffers',
        'queued signals',
        'raised limits',
      ],
      means: 'resource limits and the tmpfs, which root sets as outside',
    },
    {
      topic: 'files',
      names: [
        'passwords and keys of the host',
        'a file that any user of the host may read',
        'paths above the root',
        'links out of the box',
        'chroot',
        'environment',
        'writable places',
        'tools of the machine',
        'overwriting its own program',
        'descriptors of the launcher',
        'devices',
        'making device nodes',
        'disk and memory devices by path',
        'setuid file of its own',
        'setuid programs of the system',
        'file capabilities',
        'programs in data directories',
        'files by handle',
        'watching a whole file system',
        'leases on shared files',
      ],
      means:
        'mounts, rights that root gives up, an empty environment and closed descriptors, as outside',
    },
    {
      topic: 'sharing',
      names: [
        'processes that wake each other',
        'processes that move each other',
        'processes that come and go',
      ],
      means:
        'the quota of a group, whatever its processes do; the case "sessions" shows that this group has one',
    },
  ],
  user: [
    PIPES,
    FILTERED,
    {
      topic: 'kernel',
      names: [
        'old system calls',
        '32-bit system calls',
        'x32 system calls',
        'high bits of arguments',
        'unknown system calls',
        'every call',
        'every call of other ABIs',
        'records about calls of other ABIs',
        'ptrace',
        'memory of processes',
        'madvise of processes',
        'newer mount calls',
        'unshare',
        'clone with namespaces',
        'clone3',
        'futexes in the kernel’s log',
        'setns',
        'keyrings',
        'bpf',
        'io_uring',
        'perf',
        'userfaultfd',
        'memfd_secret',
        'personality',
        'pages of processes',
      ],
      means: 'the one filter, which does not depend on who the launcher is',
    },
    {
      topic: 'network',
      names: [
        'TCP',
        'TCP over IPv6',
        'UDP',
        'raw IP',
        'ping socket',
        'MPTCP and SCTP',
        'netlink routes',
        'netlink audit',
        'netlink uevents',
        'packet socket',
        'AF_VSOCK',
        'AF_ALG',
        'AF_KEY',
        'AF_XDP',
        'AF_TIPC',
        'AF_CAN',
        'AF_BLUETOOTH',
        'pairs of sockets',
      ],
      means: 'the one filter; the case "every family and type" shows that it is there',
    },
    { topic: 'bombs', names: REFUSALS, means: 'the filter’s questions to the launcher' },
    {
      topic: 'bombs',
      names: [
        'fork storm',
        'fork churn',
        'shared memory bomb',
        'memory pushed out to swap',
        'address space',
        'SysV shared memory bomb',
        'SysV message bomb',
        'a page over the memory limit',
        'names that do not exist, then a loop',
        'names that do not exist, then an orphan',
      ],
      means: 'the controllers, which count in a delegated group as in the other guest’s',
    },
    {
      topic: 'endings',
      names: [
        'catching every signal',
        'ignoring and blocking every signal',
        'raising the soft CPU limit',
        'writing orphan',
        'main thread leaves',
        'stopping itself',
        'parent of a hanging vfork',
        'spinning processes',
        'spinning threads',
        'CPU time in children',
      ],
      means: 'the counters and the kill of a group, as in the other guest',
    },
    {
      topic: 'sharing',
      names: ['memory that is being changed while the service answers'],
      means: 'the launcher’s clock and the kill of a group, as in the other guest',
    },
    {
      topic: 'sharing',
      names: [
        'processes that wake each other',
        'processes that move each other',
        'processes that come and go',
      ],
      means:
        'the quota of a group, whatever its processes do; the case "sessions" shows that this group has one',
    },
  ],
};

export const isAs = (word: string): word is As => word in SAME;

export const differsIn = (as: As, test: { topic: string; name: string }): boolean =>
  !SAME[as].some(
    ({ topic, names }) => topic === test.topic && (names === 'all' || names.includes(test.name)),
  );
