/**
 * What boxes and host share although no byte of another's data is in it: inodes and cached pages of the
 * toolchains, disks, processors, and the kernel's own memory. A table of cases of one shape.
 */
import type { LanguageName as Language } from '../../../src/domain/limits.ts';
import { BOTH, type Case, CPP, denied, works } from '../case.ts';

type Row = [
  name: string,
  program: string,
  twin: string,
  languages: readonly Language[],
  claim: string,
  because: string,
];

const FILTER = 'the filter denies it';
const rows: readonly Row[] = [
  [
    'watches',
    'watch_others',
    'own_changes_seen',
    BOTH,
    'see or delay what other runs and the host open',
    'the filter denies inotify, fanotify, F_NOTIFY and leases, and each slot has inodes of its own',
  ],
  [
    'locks',
    'locks_kept',
    'locks_own',
    BOTH,
    'stop others by a lock on a shared file, or fill the kernel’s memory with locks',
    'a lock is granted without being kept, and the filter denies F_OFD_*',
  ],
  [
    'eviction of cached pages',
    'cache_changed',
    'advice_honest',
    BOTH,
    'evict or load cached pages of a shared file',
    FILTER,
  ],
  [
    'view of cached pages',
    'cache_seen',
    'advice_honest',
    BOTH,
    'learn which pages of a shared file are cached',
    'the filter denies mincore, cachestat and every flag of preadv2',
  ],
  [
    'files of its own in /proc',
    'proc_written',
    'proc_honest',
    CPP,
    'clear marks in /proc/self, and so learn which pages others use',
    'its /proc is read-only, and the filter denies mounts',
  ],
  [
    'disks',
    'disks_written',
    'files_flushed',
    CPP,
    'make the host’s disks write',
    'the filter answers fsync and its like with success, and the kernel never sees them',
  ],
  ['asynchronous I/O', 'aio_used', 'advice_honest', CPP, 'use up the machine’s aio-max-nr', FILTER],
  [
    'load of the machine',
    'load_seen',
    'machine_honest',
    BOTH,
    'learn the machine’s uptime, load, tasks or free memory',
    'the slot answers sysinfo, with the same facts for all',
  ],
  [
    'questions to the slot',
    'load_asked_for',
    'machine_honest',
    CPP,
    'keep its slot busy with sysinfo',
    'the slot leaves further questions unread for 10 ms',
  ],
  [
    'space of the machine',
    'disk_space_seen',
    'files_flushed',
    BOTH,
    'learn how full the host’s disks are',
    'the filter denies statfs and fstatfs',
  ],
  [
    'merged pages',
    'pages_merged',
    'advice_honest',
    CPP,
    'learn whether another process has a page with the same content',
    'the filter denies MADV_MERGEABLE and PR_SET_MEMORY_MERGE',
  ],
  [
    'huge pages',
    'huge_pages',
    'advice_honest',
    CPP,
    'take huge pages, which the host reserved for others and no group is charged for',
    FILTER,
  ],
  [
    'processors of others',
    'processors_taken',
    'machine_honest',
    CPP,
    'keep others off a core, or interrupt them',
    'the filter denies PR_SCHED_CORE and the global commands of membarrier',
  ],
  [
    'interrupts of others',
    'timers_wake_many',
    'timers_wake_one',
    BOTH,
    'make the kernel work in an interrupt, whose time is charged to the process that is interrupted',
    'the filter denies timerfds, signalfds and timer_create, and another timer wakes one task',
  ],
  [
    'choice of processors',
    'processors_chosen',
    'threads_pinned',
    BOTH,
    'move a process between processors, or choose how the kernel schedules it',
    'the filter answers sched_setaffinity and sched_setscheduler with success and does nothing, and denies sched_setattr',
  ],
  [
    'kernel memory that is charged to nobody',
    'kernel_memory',
    'advice_honest',
    CPP,
    'fill memory that filters of sockets or names of mappings take',
    FILTER,
  ],
  [
    'limits of other processes',
    'limits_of_others',
    'limits_own',
    BOTH,
    'change the limits of another process',
    'the filter allows prlimit64 for the caller only',
  ],
  [
    'counters of the machine',
    'counts_seen',
    'counts_own',
    BOTH,
    'learn from a pidfd, a cookie or a mount id how many processes, sockets and mounts others made',
    FILTER,
  ],
  [
    'processes of the machine',
    'processes_walked',
    'processes_own',
    BOTH,
    'learn from the time of a call how many processes the machine has',
    'the filter denies kill(-1) and PRIO_USER, which walk all of them',
  ],
  [
    'locked segments',
    'segments_locked',
    'segment_used',
    CPP,
    'use up the locked memory that the next run’s segments count against',
    FILTER,
  ],
  [
    'tables of the network',
    'network_tables',
    'counts_own',
    BOTH,
    'read the kernel’s tables of sockets and packets, which show the slot’s own and count the machine’s',
    'the slot takes away their permissions, if it has an id of root',
  ],
  [
    'seals of files in memory',
    'seals_against_writes',
    'seals_honest',
    CPP,
    'make every processor empty its lists of pages by sealing a file',
    'the filter denies F_SEAL_WRITE',
  ],
  [
    'pages given to a pipe',
    'pages_given',
    'advice_honest',
    CPP,
    'fill its pipes for less than it costs to empty them',
    'the filter denies vmsplice and tee',
  ],
];

const single: readonly Case[] = rows.map(([name, program, twin, languages, claim, because]) => ({
  name,
  topic: 'sharing',
  claim: `a program cannot ${claim}`,
  because,
  languages,
  hostile: denied(program),
  honest: works(twin),
}));

const sockets: Case = {
  name: 'sockets that hold themselves',
  topic: 'sharing',
  needs_box: true,
  claim:
    'a program cannot leave a socket, and what was sent with it, by sending the socket through itself',
  because: 'after each run the slot closes sockets until its network namespace has none of a run',
  languages: BOTH,
  before: works('sockets_kept'),
  hostile: denied('sockets_found'),
  honest: works('descriptor_passed'),
};

const group: Case = {
  name: 'number of the group',
  topic: 'sharing',
  needs_box: true,
  claim: 'a program cannot learn from its control group how many runs its slot had',
  because: 'it sees its group below the root of its own namespace, and always by the same name',
  languages: BOTH,
  hostile: denied('group_number'),
  honest: works('counts_own'),
};
export const sharing: readonly Case[] = [...single, sockets, group];
