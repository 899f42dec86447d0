import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { createDnsResolver } from '../../src/webhooks/resolve.ts';

const A = 1;
const AAAA = 28;
const SERVFAIL = 2;
const NXDOMAIN = 3;

type Zone = (name: string, type: number) => Buffer[] | number | 'silence';

/** A name server on loopback that answers each question with addresses, an error, or not at all. */
async function openNameServer(zone: Zone) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const { name, type, end } = questionOf(query);
    asked.push(`${name} ${type === A ? 'A' : 'AAAA'}`);
    const answer = zone(name, type);
    if (answer === 'silence') return void socket.emit('silence');
    socket.send(answerTo(query, end, type, answer), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const silence = once(socket, 'silence');
  const resolve = createDnsResolver({
    servers: [`127.0.0.1:${(socket.address() as AddressInfo).port}`],
  });
  return { asked, resolve, silence, [Symbol.asyncDispose]: async () => void socket.close() };
}

function questionOf(query: Buffer) {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function answerTo(query: Buffer, end: number, type: number, answer: Buffer[] | number): Buffer {
  const records = typeof answer === 'number' ? [] : answer.map((data) => record(type, data));
  const head = Buffer.from(query.subarray(0, 12));
  head.writeUInt16BE(0x8180 | (typeof answer === 'number' ? answer : 0), 2);
  head.writeUInt16BE(records.length, 6);
  head.writeUInt32BE(0, 8);
  return Buffer.concat([head, query.subarray(12, end), ...records]);
}

function record(type: number, data: Buffer): Buffer {
  const head = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length]);
  return Buffer.concat([head, data]);
}

const ipv4 = Buffer.from([93, 184, 216, 34]);
const ipv6 = Buffer.from('26064700470000000000000000001111', 'hex');
const signal = new AbortController().signal;

t.test('asks for both families, once each, and uses both answers', async (t) => {
  await using server = await openNameServer((_name, type) => (type === A ? [ipv4] : [ipv6]));
  const answer = await server.resolve('hooks.example.com', signal);
  t.same(answer, { kind: 'addresses', addresses: ['93.184.216.34', '2606:4700:4700::1111'] });
  t.same(server.asked.toSorted(), ['hooks.example.com A', 'hooks.example.com AAAA']);
});

t.test('one family is enough, however the other lookup ended', async (t) => {
  for (const other of [[], SERVFAIL, NXDOMAIN]) {
    await using four = await openNameServer((_name, type) => (type === A ? [ipv4] : other));
    t.same(await four.resolve('hooks.example.com', signal), {
      kind: 'addresses',
      addresses: ['93.184.216.34'],
    });
    await using six = await openNameServer((_name, type) => (type === AAAA ? [ipv6] : other));
    t.same(await six.resolve('hooks.example.com', signal), {
      kind: 'addresses',
      addresses: ['2606:4700:4700::1111'],
    });
  }
});

t.test('a failed lookup names the error of the DNS', async (t) => {
  const cases = [
    [NXDOMAIN, NXDOMAIN, 'ENOTFOUND'],
    [[], [], 'ENODATA'],
    [SERVFAIL, [], 'ESERVFAIL'],
    [[], SERVFAIL, 'ESERVFAIL'],
  ] as const;
  for (const [a, aaaa, code] of cases) {
    await using server = await openNameServer(
      (_name, type) => (type === A ? a : aaaa) as number | Buffer[],
    );
    t.same(await server.resolve('hooks.example.com', signal), { kind: 'dns_failed', code }, code);
  }
});

t.test('an abort ends the lookup', async (t) => {
  await using server = await openNameServer(() => 'silence');
  const stop = new AbortController();
  const looking = server.resolve('hooks.example.com', stop.signal);
  await server.silence;
  stop.abort();
  t.same(await looking, { kind: 'dns_failed', code: 'ECANCELLED' });
});

t.test('a name for loopback asks no server, and a bare name gets no search domain', async (t) => {
  await using server = await openNameServer(() => NXDOMAIN);
  for (const name of ['localhost', 'db.localhost']) {
    t.same(await server.resolve(name, signal), {
      kind: 'addresses',
      addresses: ['127.0.0.1', '::1'],
    });
  }
  t.same(server.asked, []);
  await server.resolve('internal', signal);
  t.same([...new Set(server.asked)].toSorted(), ['internal A', 'internal AAAA']);
});
