/** C: the kernel's interface is that of every native program, so one case for each kind of harm. */
import { type Case, denied, ends, type Seen, works } from '../case.ts';

const C = ['c'] as const;
const MiB = 1024 * 1024;
const SHORT = { cpu_ms: 1_000, wall_ms: 3_000 };

function groupDenied({ report }: Seen): string | null {
  return report.pids_limit_hits === 0 ? 'the group denied nothing' : null;
}

export const c: readonly Case[] = [
  {
    name: 'C: fork bomb that counts',
    topic: 'bombs',
    needs_box: true,
    claim: 'a C program cannot have more processes than its limit',
    because: 'pids.max of its group counts every task, and fork answers EAGAIN there',
    languages: C,
    hostile: ends('fork_count', 'AC', { says: /^DENIED fork EAGAIN/m, evidence: groupDenied }),
    honest: works('fork_few'),
  },
  {
    name: 'C: fork storm',
    topic: 'bombs',
    needs_box: true,
    claim: 'children of a C program that all fork on cannot outlive the run',
    because:
      'their CPU time adds up in one group, and the kernel ends a pid namespace with its init',
    languages: C,
    hostile: ends('fork_storm', 'TLE', { limits: { ...SHORT, processes: 16 } }),
    honest: works('fork_few'),
  },
  {
    name: 'C: thread bomb',
    topic: 'bombs',
    needs_box: true,
    claim: 'threads of a C program are no way around the limit of processes',
    because: 'pids.max counts threads',
    languages: C,
    hostile: ends('thread_count', 'AC', { says: /^DENIED thread EAGAIN/m, evidence: groupDenied }),
    honest: works('fork_few'),
  },
  {
    name: 'C: memory bomb',
    topic: 'bombs',
    needs_box: true,
    claim: 'a C program cannot have more memory than its limit',
    because: 'the kernel charges its group for every page, and kills at the limit',
    languages: C,
    hostile: ends('memory_touched', 'MLE'),
    honest: works('memory_some'),
  },
  {
    name: 'C: endless stack',
    topic: 'bombs',
    claim: 'the stack of a C program is no way around its memory limit',
    because: 'the stack has a limit of its own, and its pages are charged like others',
    languages: C,
    hostile: ends('stack_deep', ['SIG', 'MLE']),
    honest: works('memory_some'),
  },
  {
    name: 'C: disk bomb',
    topic: 'bombs',
    needs_box: true,
    claim: 'a C program cannot fill the disk of the host',
    because: 'its work folder is a file system of its own size, in memory that is charged to it',
    languages: C,
    hostile: ends('disk_full', ['AC', 'MLE'], { limits: { disk_bytes: 8 * MiB } }),
    honest: works('create_own'),
  },
  {
    name: 'C: files of the host',
    topic: 'files',
    needs_box: true,
    claim: 'a C program cannot read files of the host',
    because: 'its root holds toolchains and nothing else',
    languages: C,
    hostile: denied('read_paths', { args: (host) => [...host.secret_files, '/etc/shadow'] }),
    honest: works('read_own'),
  },
  {
    name: 'C: writing outside',
    topic: 'files',
    needs_box: true,
    claim: 'a C program cannot write outside /box and /tmp',
    because: 'every other mount is read-only, and it is an ordinary user',
    languages: C,
    hostile: denied('create_in', { args: ['/', '/usr', '/etc', '/usr/lib', '/proc', '/dev'] }),
    honest: works('create_own'),
  },
  {
    name: 'C: tracing and killing others',
    topic: 'kernel',
    needs_box: true,
    claim: 'a C program cannot trace or kill the init of its box',
    because: 'the filter denies ptrace, and the kernel protects the init of a pid namespace',
    languages: C,
    hostile: denied('trace_and_kill'),
    honest: works('kill_child'),
  },
  {
    name: 'C: a daemon that stays',
    topic: 'kernel',
    needs_box: true,
    claim: 'a daemon of a C program does not outlive its run',
    because: 'the kernel ends every process of a pid namespace with its init',
    languages: C,
    before: works('daemon_left'),
    hostile: denied('processes_seen'),
    honest: works('kill_child'),
  },
  {
    name: 'C: becoming root',
    topic: 'kernel',
    claim: 'a C program cannot become another user',
    because: 'it has no capabilities, and no_new_privs is set',
    languages: C,
    hostile: denied('become_root'),
    honest: works('who_am_i'),
  },
  {
    name: 'C: a service on the host’s loopback',
    topic: 'network',
    claim: 'a C program cannot reach a port of the host',
    because: 'the filter denies the socket, and the slot’s network namespace is empty',
    languages: C,
    hostile: denied('connect_out', { args: (host) => host.tcp.slice(0, 1) }),
    honest: works('talk_within'),
  },
];
