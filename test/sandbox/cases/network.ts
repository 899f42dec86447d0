/** Programs that try to communicate. */
import { BOTH, type Case, CPP, denied, JAVA, PYTHON, works } from '../case.ts';

const topic = 'network';
const family = (number: number, type: number, protocol = 0) => ({
  args: [`${number}`, `${type}`, `${protocol}`],
});
const STREAM = 1;
const DATAGRAM = 2;
const RAW = 3;
const SEQPACKET = 5;
const FILTERED = 'the filter denies sockets of every family but AF_UNIX';

const kinds: readonly { name: string; claim: string; args: readonly string[] }[] = [
  { name: 'TCP', claim: 'connect or listen by TCP', ...family(2, STREAM) },
  { name: 'TCP over IPv6', claim: 'connect or listen by IPv6', ...family(10, STREAM) },
  { name: 'UDP', claim: 'send a datagram', ...family(2, DATAGRAM) },
  { name: 'raw IP', claim: 'forge packets', ...family(2, RAW, 1) },
  { name: 'ping socket', claim: 'ping', ...family(2, DATAGRAM, 1) },
  { name: 'MPTCP and SCTP', claim: 'reach rarely used protocols', ...family(2, STREAM, 262) },
  { name: 'netlink routes', claim: 'ask the kernel about interfaces', ...family(16, RAW, 0) },
  { name: 'netlink audit', claim: 'forge audit records', ...family(16, RAW, 9) },
  { name: 'netlink uevents', claim: 'receive device events', ...family(16, RAW, 15) },
  { name: 'packet socket', claim: 'capture packets', ...family(17, RAW, 768) },
  { name: 'AF_VSOCK', claim: 'reach the hypervisor', ...family(40, STREAM) },
  { name: 'AF_ALG', claim: 'reach the kernel’s crypto drivers', ...family(38, SEQPACKET) },
  { name: 'AF_KEY', claim: 'change IPsec', ...family(15, RAW, 2) },
  { name: 'AF_XDP', claim: 'map a network card’s rings', ...family(44, RAW) },
  { name: 'AF_TIPC', claim: 'reach cluster sockets', ...family(30, STREAM) },
  { name: 'AF_CAN', claim: 'reach a field bus', ...family(29, RAW, 1) },
  { name: 'AF_BLUETOOTH', claim: 'reach Bluetooth', ...family(31, RAW, 1) },
];

export const network: readonly Case[] = [
  {
    name: 'every family and type',
    topic,
    claim: 'a program cannot make a socket of any family but AF_UNIX',
    because: FILTERED,
    languages: BOTH,
    hostile: denied('socket_families'),
    honest: works('unix_pair'),
  },
  ...kinds.map(
    ({ name, claim, args }): Case => ({
      name,
      topic,
      claim: `a program cannot ${claim}`,
      because: FILTERED,
      languages: CPP,
      hostile: denied('socket_family', { args }),
      honest: works('unix_pair'),
    }),
  ),
  {
    name: 'pairs of sockets',
    topic,
    claim: 'a program cannot get a socket of another family by socketpair',
    because: 'the filter checks its family too',
    languages: CPP,
    hostile: denied('socket_pair_inet'),
    honest: works('unix_pair'),
  },
  {
    name: 'a service on the host’s loopback',
    topic,
    claim: 'a program cannot reach a port of the host',
    because: 'the filter denies the socket, and the slot’s network namespace is empty',
    languages: BOTH,
    hostile: denied('tcp_connect', { args: (host) => host.tcp }),
    honest: works('unix_pair'),
  },
  {
    name: 'a service on the host’s loopback, from a JVM',
    topic,
    needs_box: true,
    claim: 'a program cannot reach a port of the host',
    because: 'the filter denies the socket, and the slot’s network namespace is empty',
    languages: JAVA,
    hostile: denied('tcp_connect', { args: (host) => host.tcp }),
    honest: works('unix_own'),
  },
  {
    name: 'name servers',
    topic,
    claim: 'a program cannot query a name server, and so cannot leak data through one',
    because: 'it has no datagram socket, no network and no resolver configuration',
    languages: BOTH,
    hostile: denied('dns_ask'),
    honest: works('unix_pair'),
  },
  {
    name: 'the library’s HTTP client',
    topic,
    claim: 'a program cannot reach the host by a library’s HTTP client',
    because: FILTERED,
    languages: PYTHON,
    hostile: denied('http_get', { args: (host) => host.tcp.slice(0, 1) }),
    honest: works('asyncio_own'),
  },
  {
    name: 'UNIX sockets of the host, by path and by abstract name',
    topic,
    needs_box: true,
    claim: 'a program cannot connect to a UNIX socket of the host',
    because:
      'its root does not contain the paths, and abstract names belong to a network namespace',
    languages: BOTH,
    hostile: denied('unix_connect', { args: (host) => host.unix_sockets }),
    honest: works('unix_own'),
  },
  {
    name: 'an abstract socket of another slot',
    topic,
    claim: 'two simultaneous runs cannot communicate through an abstract name',
    because: 'each slot has its own network namespace',
    languages: CPP,
    beside: works('unix_listen', { args: ['@between-slots', 'stay'] }),
    hostile: denied('unix_connect', { args: ['@between-slots'] }),
    honest: works('unix_own'),
  },
  {
    name: 'interfaces by ioctl',
    topic,
    claim: 'a program cannot read addresses or bring up an interface through a UNIX socket',
    because:
      'the slot’s network namespace has only loopback, which is down, and the program has no CAP_NET_ADMIN',
    languages: CPP,
    hostile: denied('interfaces'),
    honest: works('unix_pair'),
  },
  {
    name: 'setting the host name',
    topic,
    needs_box: true,
    claim: 'a program cannot rename the machine or its slot',
    because: 'it has no CAP_SYS_ADMIN in its uts namespace',
    languages: BOTH,
    hostile: denied('hostname_set'),
    honest: works('hostname_get', { args: (host) => [host.hostname] }),
  },
  {
    name: 'reading the host name',
    topic,
    needs_box: true,
    claim: 'a program cannot learn the machine’s name',
    because: 'the uts namespace has another name',
    languages: CPP,
    hostile: denied('names_of_host', { args: (host) => [host.hostname] }),
    honest: works('hostname_get', { args: (host) => [host.hostname] }),
  },
  {
    name: 'well-known sockets of the host',
    topic,
    needs_box: true,
    claim: 'a program cannot connect to the host’s X server, D-Bus, container or systemd sockets',
    because:
      'its root does not contain the paths, and abstract names belong to a network namespace',
    languages: BOTH,
    hostile: denied('unix_connect', {
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
