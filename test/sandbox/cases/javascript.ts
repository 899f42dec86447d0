/** JavaScript: what Node adds to a native program's ways to do harm, and what it must not take away. */
import { type Case, denied, ends, type Seen, works } from '../case.ts';

const JAVASCRIPT = ['javascript'] as const;
const MiB = 1024 * 1024;
const GRACE_BYTES = 4 * MiB;

function groupDenied({ report }: Seen): string | null {
  return report.pids_limit_hits === 0 ? 'the group denied nothing' : null;
}
function withinLimit({ report, limits }: Seen): string | null {
  const { memory_peak_bytes: peak } = report;
  return peak > limits.memory_bytes + GRACE_BYTES ? `peak ${peak}` : null;
}

const IN_ITS_BOX = 'Node is a program like any other: the box holds whatever Node lets through';

/** Each starts V8 or fills its heap, which takes long on a busy machine. */
const LONG = { wall_ms: 60_000 };

export const javascript: readonly Case[] = [
  {
    name: 'JavaScript: fork bomb',
    topic: 'bombs',
    needs_box: true,
    claim: 'child processes of Node cannot be more than the limit',
    because: 'pids.max of its group counts every task, and fork answers EAGAIN there',
    languages: JAVASCRIPT,
    hostile: ends('fork_count', 'AC', {
      limits: { processes: 40 },
      says: /^DENIED spawn EAGAIN/m,
      evidence: groupDenied,
    }),
    honest: works('fork_few'),
  },
  {
    name: 'JavaScript: worker threads without end',
    topic: 'bombs',
    needs_box: true,
    claim: 'worker threads are no way around the limit of processes',
    because: 'pids.max counts threads',
    languages: JAVASCRIPT,
    hostile: ends('worker_count', ['AC', 'SIG'], {
      limits: { processes: 20, ...LONG },
      evidence: groupDenied,
    }),
    honest: works('worker_few'),
  },
  {
    name: 'JavaScript: heap without end',
    topic: 'bombs',
    claim: 'a heap that grows without end is an MLE, within the limit',
    because: 'V8’s heap is sized to the limit, and the group charges every page',
    languages: JAVASCRIPT,
    hostile: ends('heap', 'MLE', { limits: LONG, evidence: withinLimit }),
    honest: works('memory_some'),
  },
  {
    name: 'JavaScript: buffers without end',
    topic: 'bombs',
    claim: 'memory outside V8’s heap counts, too',
    because: 'the group charges every page, even one that V8 did not allocate',
    languages: JAVASCRIPT,
    hostile: ends('buffers', 'MLE', { evidence: withinLimit }),
    honest: works('memory_some'),
  },
  {
    name: 'JavaScript: WebAssembly memory without end',
    topic: 'bombs',
    claim: 'memory of WebAssembly counts, too',
    because: 'the group charges every page, even one that V8 did not allocate',
    languages: JAVASCRIPT,
    hostile: ends('wasm_memory', ['MLE', 'RE'], { evidence: withinLimit }),
    honest: works('memory_some'),
  },
  {
    name: 'JavaScript: flags of its own',
    topic: 'bombs',
    claim: 'a Node that a program starts with a larger heap has no more memory',
    because: 'its heap’s size is a courtesy; the limit is the group’s',
    languages: JAVASCRIPT,
    hostile: ends('own_flags', 'MLE', { evidence: withinLimit }),
    honest: works('fork_few'),
  },
  {
    name: 'JavaScript: files of the host',
    topic: 'files',
    claim: 'a JavaScript program cannot read files of the host',
    because: 'its root holds the system’s folders, Node’s executable and nothing else',
    languages: JAVASCRIPT,
    hostile: denied('read_paths', { args: (host) => [...host.secret_files, '/etc/shadow'] }),
    honest: works('read_own'),
  },
  {
    name: 'JavaScript: modules of the service',
    topic: 'files',
    claim: 'a JavaScript program cannot load the service’s own files, though it runs the same Node',
    because: 'the box sees the folder of the executable and no other of the installation',
    languages: JAVASCRIPT,
    hostile: denied('require_paths', { args: (host) => host.secret_files }),
    honest: works('runs_node'),
  },
  {
    name: 'JavaScript: where Node is installed',
    topic: 'files',
    needs_box: true,
    claim: 'a JavaScript program does not learn the installation’s path from its own process',
    because: 'the executable’s folder is mounted at a path of the box',
    languages: JAVASCRIPT,
    hostile: denied('installation', { args: (host) => host.host_words }),
    honest: works('runs_node'),
  },
  {
    name: 'JavaScript: writing outside',
    topic: 'files',
    claim: 'a JavaScript program cannot write outside /box and /tmp',
    because: 'every other mount is read-only, and it is an ordinary user',
    languages: JAVASCRIPT,
    hostile: denied('create_in', { args: ['/', '/usr', '/etc', '/opt', '/proc', '/dev'] }),
    honest: works('create_own'),
  },
  {
    name: 'JavaScript: replacing Node',
    topic: 'files',
    needs_box: true,
    claim: 'a JavaScript program cannot change the Node that later programs, and the service, run',
    because: 'the mount is read-only, and the preloaded file is a copy in a read-only root',
    languages: JAVASCRIPT,
    hostile: denied('replace_node'),
    honest: works('runs_node'),
  },
  {
    name: 'JavaScript: process.binding',
    topic: 'kernel',
    claim: 'Node’s internal bindings reach no file of the host',
    because: IN_ITS_BOX,
    languages: JAVASCRIPT,
    hostile: denied('internals', { args: (host) => host.secret_files.slice(0, 1) }),
    honest: works('who_am_i'),
  },
  {
    name: 'JavaScript: native addons',
    topic: 'kernel',
    claim: 'process.dlopen loads no file of the host',
    because: IN_ITS_BOX,
    languages: JAVASCRIPT,
    hostile: denied('addon', { args: (host) => host.secret_files.slice(0, 1) }),
    honest: works('who_am_i'),
  },
  {
    name: 'JavaScript: killing the init',
    topic: 'kernel',
    needs_box: true,
    claim: 'a JavaScript program cannot kill the init of its box',
    because: 'the kernel protects the init of a pid namespace',
    languages: JAVASCRIPT,
    hostile: denied('kill_others'),
    honest: works('kill_own'),
  },
  {
    name: 'JavaScript: daemons that stay',
    topic: 'kernel',
    needs_box: true,
    claim: 'detached children of Node do not outlive the run',
    because: 'the kernel ends every process of a pid namespace with its init',
    languages: JAVASCRIPT,
    before: works('daemon_left'),
    hostile: denied('processes_seen'),
    honest: works('kill_own'),
  },
  {
    name: 'JavaScript: becoming root',
    topic: 'kernel',
    claim: 'a JavaScript program cannot become another user',
    because: 'it has no capabilities, and no_new_privs is set',
    languages: JAVASCRIPT,
    hostile: denied('become_root'),
    honest: works('who_am_i'),
  },
  {
    name: 'JavaScript: V8’s own commands',
    topic: 'kernel',
    claim: 'a program that crashes its V8 ends by a signal, and nothing else happens',
    because: IN_ITS_BOX,
    languages: JAVASCRIPT,
    hostile: ends('natives', 'SIG', { signal: 'SIGTRAP' }),
    honest: works('optimised'),
  },
  {
    name: 'JavaScript: services of the host',
    topic: 'network',
    needs_box: true,
    claim: 'a JavaScript program cannot reach a port or a socket of the host',
    because:
      'the filter denies the sockets, the network namespace is empty, and paths are not in its root',
    languages: JAVASCRIPT,
    hostile: denied('connect_out', { args: (host) => [...host.tcp, ...host.unix_sockets] }),
    honest: works('talk_within'),
  },
  {
    name: 'JavaScript: names and datagrams',
    topic: 'network',
    claim: 'a JavaScript program cannot ask a name server, and so not leak by one',
    because: 'no datagram socket, no network, no resolver configuration',
    languages: JAVASCRIPT,
    hostile: denied('look_up'),
    honest: works('talk_within'),
  },
  {
    name: 'JavaScript: the debugger',
    topic: 'network',
    claim: 'a JavaScript program cannot open a port by Node’s debugger',
    because: 'the filter denies the socket',
    languages: JAVASCRIPT,
    hostile: denied('inspector'),
    honest: works('talk_within'),
  },
];
