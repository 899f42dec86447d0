/** Programs that look for somebody to talk to. */
import { BOTH, type Case, CPP, JAVA, PYTHON, refused, works } from '../case.ts';

const topic = 'network';
const family = (number: number, type: number, protocol = 0) => ({
  args: [`${number}`, `${type}`, `${protocol}`],
});
const STREAM = 1;
const DATAGRAM = 2;
const RAW = 3;
const SEQPACKET = 5;
const FILTERED = 'the filter refuses sockets of any family but AF_UNIX';

const kinds: readonly { name: string; claim: string; args: readonly string[] }[] = [
  { name: 'TCP', claim: 'connect or listen by TCP', ...family(2, STREAM) },
  { name: 'TCP over IPv6', claim: 'connect or listen by IPv6', ...family(10, STREAM) },
  { name: 'UDP', claim: 'send a datagram', ...family(2, DATAGRAM) },
  { name: 'raw IP', claim: 'forge packets', ...family(2, RAW, 1) },
  { name: 'ping socket', claim: 'ping', ...family(2, DATAGRAM, 1) },
  { name: 'MPTCP and SCTP', claim: 'reach rarely used protocols', ...family(2, STREAM, 262) },
  { name: 'netlink routes', claim: 'ask the kernel about interfaces', ...family(16, RAW, 0) },
  { name: 'netlink audit', claim: 'forge audit records', ...family(16, RAW, 9) },
  { name: 'netlink uevents', claim: 'listen to devices', ...family(16, RAW, 15) },
  { name: 'packet socket', claim: 'listen on the wire', ...family(17, RAW, 768) },
  { name: 'AF_VSOCK', claim: 'talk to the hypervisor', ...family(40, STREAM) },
  { name: 'AF_ALG', claim: 'reach the kernel’s crypto drivers', ...family(38, SEQPACKET) },
  { name: 'AF_KEY', claim: 'touch IPsec', ...family(15, RAW, 2) },
  { name: 'AF_XDP', claim: 'map a network card’s rings', ...family(44, RAW) },
  { name: 'AF_TIPC', claim: 'reach cluster sockets', ...family(30, STREAM) },
  { name: 'AF_CAN', claim: 'reach a field bus', ...family(29, RAW, 1) },
  { name: 'AF_BLUETOOTH', claim: 'reach radios', ...family(31, RAW, 1) },
];

export const network: readonly Case[] = [
  {
    name: 'every family and type',
    topic,
    claim: 'a program cannot make any socket but of AF_UNIX',
    because: FILTERED,
    languages: BOTH,
    hostile: refused('socket_families'),
    honest: works('unix_pair'),
  },
  ...kinds.map(
    ({ name, claim, args }): Case => ({
      name,
      topic,
      claim: `a program cannot ${claim}`,
      because: FILTERED,
      languages: CPP,
      hostile: refused('socket_family', { args }),
      honest: works('unix_pair'),
    }),
  ),
  {
    name: 'pairs of sockets',
    topic,
    claim: 'socketpair is no way to another family',
    because: 'the filter looks at its family too',
    languages: CPP,
    hostile: refused('socket_pair_inet'),
    honest: works('unix_pair'),
  },
  {
    name: 'a service on the host’s loopback',
    topic,
    claim: 'a program cannot reach a port of the host',
    because: 'the filter refuses the socket, and the slot’s network namespace is empty',
    languages: BOTH,
    hostile: refused('tcp_connect', { args: (host) => host.tcp }),
    honest: works('unix_pair'),
  },
  {
    name: 'a service on the host’s loopback, from a JVM',
    topic,
    needs_box: true,
    claim: 'a program cannot reach a port of the host',
    because: 'the filter refuses the socket, and the slot’s network namespace is empty',
    languages: JAVA,
    hostile: refused('tcp_connect', { args: (host) => host.tcp }),
    honest: works('unix_own'),
  },
  {
    name: 'names',
    topic,
    claim: 'a program cannot ask a name server, and so not leak by one',
    because: 'no datagram socket, no network, no resolver configuration',
    languages: BOTH,
    hostile: refused('dns_ask'),
    honest: works('unix_pair'),
  },
  {
    name: 'the library’s HTTP client',
    topic,
    claim: 'what a library offers is refused like any socket',
    because: FILTERED,
    languages: PYTHON,
    hostile: refused('http_get', { args: (host) => host.tcp.slice(0, 1) }),
    honest: works('asyncio_own'),
  },
  {
    name: 'sockets of the host in the file system and in the abstract',
    topic,
    needs_box: true,
    claim: 'a program cannot call a UNIX socket of the host',
    because: 'paths are not in its root; abstract names belong to a network namespace',
    languages: BOTH,
    hostile: refused('unix_connect', { args: (host) => host.unix_sockets }),
    honest: works('unix_own'),
  },
  {
    name: 'an abstract socket of another slot',
    topic,
    claim: 'two runs at the same time cannot talk by an abstract name',
    because: 'each slot has a network namespace of its own',
    languages: CPP,
    beside: works('unix_listen', { args: ['@between-slots', 'stay'] }),
    hostile: refused('unix_connect', { args: ['@between-slots'] }),
    honest: works('unix_own'),
  },
  {
    name: 'interfaces by ioctl',
    topic,
    claim: 'a UNIX socket tells no address and raises no interface',
    because:
      'the slot’s network namespace has loopback alone, down, and the program no CAP_NET_ADMIN',
    languages: CPP,
    hostile: refused('interfaces'),
    honest: works('unix_pair'),
  },
  {
    name: 'host name set',
    topic,
    needs_box: true,
    claim: 'a program cannot rename the machine, nor its slot',
    because: 'no CAP_SYS_ADMIN in its uts namespace',
    languages: BOTH,
    hostile: refused('hostname_set'),
    honest: works('hostname_get', { args: (host) => [host.hostname] }),
  },
  {
    name: 'host name read',
    topic,
    needs_box: true,
    claim: 'a program cannot tell which machine it is on',
    because: 'the uts namespace has a name of its own',
    languages: CPP,
    hostile: refused('names_of_host', { args: (host) => [host.hostname] }),
    honest: works('hostname_get', { args: (host) => [host.hostname] }),
  },
  {
    name: 'network tables',
    topic,
    needs_box: true,
    claim: 'a program learns no connection, route or address of the host',
    because: '/proc/net shows the slot’s empty namespace, or nothing',
    languages: BOTH,
    hostile: refused('unix_connect', {
      args: [
        '@/tmp/.X11-unix/X0',
        '/run/dbus/system_bus_socket',
        '/var/run/docker.sock',
        '/run/systemd/private',
        '/run/systemd/journal/socket',
      ],
    }),
    honest: works('unix_own'),
  },
];
