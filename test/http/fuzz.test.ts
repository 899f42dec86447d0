/**
 * 10,000 requests generated from the OpenAPI document with a seed: valid ones, ones with a few changes, and bytes. Every
 * answer is a 4xx or 2xx that the document has for that operation, in its shape; the server rejects every request that the
 * schema rejects; and afterwards the process holds no more descriptors and memory than before.
 */

import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import t from 'tap';
import { heldBy } from '../../src/config/connections.ts';
import { eventually, until } from '../support/eventually.ts';
import { wire } from './support/call.ts';
import { type Document, disagreements, operationOf, readDocument } from './support/document.ts';
import { type Chance, seeded, seedOfRun } from './support/random.ts';
import { type Service, startService } from './support/service.ts';
import type { WebProcess } from './support/web_process.ts';

const REQUESTS = 10_000;
const AT_ONCE = 16;
/** As it is by default. */
const POOL = 16;
/** What a web process logs on an overloaded machine, whatever the requests are: also that it had no heartbeat for 5 s. */
const SLOW =
  /"(message|reason)":"the database did not answer"|"msg":"unavailable: The database does not answer\."|"reason":"worker_silent"|"msg":"this consumer was declared dead/;
/** What it answers there. */
const TOO_SLOW = 'The database does not answer.';
/** Few requests come while the machine is so busy. */
const SLOW_AT_MOST = REQUESTS / 100;
/** Of one request that was not answered for want of time. */
const TRIES = 3;
const RSS_GROWTH_MIB = 120;
const RESET = 'reset';
/** Few bodies are larger than what the system takes before it is read. */
const RESETS_AT_MOST = REQUESTS / 100;

t.test('fuzzing from the OpenAPI document', async (t) => {
  const seed = seedOfRun();
  t.comment(`SEED=${seed}`);
  // Without a key the service logs that nothing is sealed.
  const sealed = { RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64') };
  const bounds = { RUNLEDGER_QUEUE_CAPACITY: '100000', RUNLEDGER_DATABASE_POOL: String(POOL) };
  const service = await startService(t, { env: { ...bounds, ...sealed } });
  const database_port = Number(new URL(service.database.urls.web).port);
  const held = (web: WebProcess) => holdings(web, database_port);
  const document = await readDocument(service.webs[0]!.origin);
  const key = await service.key();
  const chance = seeded(seed);
  const fuzz = async (count: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
    try {
      return await many({ service, document, key, agent, chance }, count);
    } finally {
      agent.destroy();
    }
  };

  await fuzz(1_000);
  // Else the descriptors of these connections would hide as many that stay open.
  await until(() =>
    service.webs.every(({ port }) => !connections().some(({ from }) => from === port)),
  );
  const before = service.webs.map(held);
  const tally = await fuzz(REQUESTS);
  t.comment(JSON.stringify(Object.fromEntries([...tally.statuses].sort())));

  t.same(tally.odd.slice(0, 5), [], 'every answer is a 2xx or a 4xx in a shape of the document');
  t.same(tally.loose.slice(0, 5), [], 'a request that the schema rejects is rejected');
  t.ok((tally.statuses.get('202') ?? 0) > 500, 'there were valid requests');
  t.ok((tally.statuses.get('400') ?? 0) > 500, 'and invalid ones');
  t.ok((tally.statuses.get(RESET) ?? 0) <= RESETS_AT_MOST, 'and few without an answer');
  t.ok(
    (tally.statuses.get('slow') ?? 0) <= SLOW_AT_MOST,
    'and few that the database had no time for',
  );
  for (const [n, web] of service.webs.entries()) {
    t.equal(web.process.exitCode, null, 'the process lives');
    const complaints = web.written.filter(
      (line) => /"level":"(error|fatal|warn)"|Unhandled|\bat \//.test(line) && !SLOW.test(line),
    );
    t.same(complaints.slice(0, 5), [], 'and has logged no errors');
    // Connections end a moment after their last answer.
    await eventually(() => held(web).fds <= before[n]!.fds, 60_000);
    const after = held(web);
    t.ok(after.fds <= before[n]!.fds, `descriptors: ${before[n]!.fds} before, ${after.fds} after`);
    t.ok(
      after.database_connections <= heldBy('web', POOL),
      `${after.database_connections} connections to the database`,
    );
    const grown = after.rss_mib - before[n]!.rss_mib;
    t.ok(grown < RSS_GROWTH_MIB, `memory: ${grown.toFixed(0)} MiB more`);
  }
});

type Fuzzer = { service: Service; document: Document; key: string; agent: Agent; chance: Chance };
type Sent = { method: string; path: string; headers: Record<string, string>; body?: Buffer };
type Answer = { status: number; headers: IncomingHttpHeaders; text: string };
type Tally = { statuses: Map<string, number>; odd: string[]; loose: string[] };

/** The connections over TCP of this machine that are not closed here. */
function connections(): { from: number; to: number; inode: string }[] {
  const LISTEN = '0A';
  // A machine without IPv6 has only the first.
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].filter((each) => existsSync(each));
  const lines = tables.flatMap((each) => readFileSync(each, 'utf8').trim().split('\n').slice(1));
  return lines.flatMap((line) => {
    const [, local, remote, state, , , , , , inode] = line.trim().split(/\s+/);
    const [from, to] = [local, remote].map((end) => Number.parseInt(end!.split(':')[1]!, 16));
    return state === LISTEN || inode === '0' ? [] : [{ from: from!, to: to!, inode: inode! }];
  });
}

type Holdings = { fds: number; database_connections: number; rss_mib: number };

/** Connections to the database are opened when they are needed, so their number is another one. */
function holdings({ process }: WebProcess, database_port: number): Holdings {
  const folder = `/proc/${process.pid}`;
  const fds = readdirSync(`${folder}/fd`);
  const links = fds.map((fd) => linkOf(`${folder}/fd/${fd}`)).filter((link) => link !== null);
  const to_database = connections().filter(({ to }) => to === database_port);
  const sockets = new Set(to_database.map(({ inode }) => `socket:[${inode}]`));
  const database_connections = links.filter((link) => sockets.has(link)).length;
  const pages = Number(readFileSync(`${folder}/statm`, 'utf8').split(' ')[1]);
  const rss_mib = (pages * 4096) / 2 ** 20;
  return { fds: links.length - database_connections, database_connections, rss_mib };
}

/** Null if it is gone by now. */
function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

async function many(fuzzer: Fuzzer, count: number): Promise<Tally> {
  const tally: Tally = { statuses: new Map(), odd: [], loose: [] };
  let left = count;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      // Requests are generated one after the other, so that a seed gives the same requests.
      await tryOne(fuzzer, tally);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return tally;
}

async function tryOne(fuzzer: Fuzzer, tally: Tally): Promise<void> {
  const { chance, service, document } = fuzzer;
  if (chance.next() < 0.05) return rawBytes(fuzzer, tally);
  const { sent, value } = makeRequest(fuzzer);
  const web = chance.one(service.webs);
  let reply = await send(web.port, fuzzer.agent, sent);
  // A request whose own statement hangs is slow each time.
  for (let n = 1; n < TRIES && reply?.status === 503 && isSlow(reply.text); n += 1) {
    count(tally, 'slow');
    reply = await send(web.port, fuzzer.agent, sent);
  }
  count(tally, reply === null ? RESET : String(reply.status));
  if (reply === null) return;
  const shown = `${sent.method} ${sent.path} ${sent.body?.toString('latin1').slice(0, 200)} -> ${reply.status} ${reply.text.slice(0, 200)}`;
  const wrong = wrongWith(document, sent, reply);
  if (wrong.length > 0) tally.odd.push(`${shown}: ${wrong}`);
  if (value !== undefined && reply.status === 202 && !document.check('SubmissionRequest', value)) {
    tally.loose.push(shown);
  }
}

/** What the document does not say of the answer. */
function wrongWith(document: Document, { method, path }: Sent, { status, headers, text }: Answer) {
  const operation = operationOf(document.json, method, path);
  const answer = { status, headers, text, json: parsed(text) };
  const is_kind = (hundreds: number) => Math.floor(status / 100) === hundreds;
  if (!is_kind(2) && !is_kind(4)) return [`a ${status}`];
  if (operation) return disagreements(document, operation, answer, method !== 'HEAD');
  // An address or a method that the document does not have.
  if (is_kind(2)) return method === 'OPTIONS' && text === '' ? [] : ['no such operation'];
  const is_right = (method === 'HEAD' && text === '') || document.check('Problem', answer.json);
  return is_right ? [] : ['no problem'];
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const isSlow = (text: string) => (parsed(text) as { message?: unknown })?.message === TOO_SLOW;

const count = ({ statuses }: Tally, status: string) =>
  void statuses.set(status, (statuses.get(status) ?? 0) + 1);

function makeRequest({ chance, document, key }: Fuzzer): { sent: Sent; value?: unknown } {
  const headers: Record<string, string> = { 'x-api-key': key };
  if (chance.next() < 0.3) return { sent: { ...otherAddress(chance), headers } };
  headers['content-type'] = 'application/json';
  if (chance.next() < 0.1) Object.assign(headers, oddHeader(chance));
  const examples = Object.values(
    document.operation('post', '/api/submit').requestBody!.content['application/json'].examples,
  );
  const value = structuredClone(chance.one(examples).value) as Record<string, unknown>;
  const changes = chance.below(4);
  for (let n = 0; n < changes; n += 1) change(value, chance);
  let body: Buffer = Buffer.from(JSON.stringify(value) ?? '');
  const broken = chance.next() < 0.15;
  if (broken) body = damage(body, chance);
  const path = chance.next() < 0.9 ? '/api/submit' : `/api/submit?${oddQuery(chance)}`;
  return {
    sent: { method: 'POST', path, headers, body },
    ...(!broken && { value: JSON.parse(body.toString()) }),
  };
}

const ODD_VALUES = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  '',
  'x',
  'é😀',
  '\0',
  '\ud800',
  'x'.repeat(65_537),
  [],
  {},
  [null],
  { a: 1 },
  'python',
  'cpp',
  'https://a.example/',
  'https://127.0.0.1/',
  ['a', 'b'],
  '../a',
  'first',
  [{}],
  [[]],
  [{ stdin: 'a', args: ['b'], limits: {} }],
  [{ path: 'a', content: 'b' }],
  { by: 'tokens', absolute: 1 },
  { language: 'python', code: '', protocol: 'icpc' },
  { language: 'x', code: 1, protocol: 'icpc', files: [{ path: 'a' }, []] },
  '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10',
] as const;
const NAMES = [
  'language',
  'code',
  'stdin',
  'stdin_base64',
  'args',
  'expected_output',
  'compare',
  'limits',
  'webhook_url',
  'webhook_secret',
  'files',
  'tests',
  'test_set',
  'stop',
  'checker',
  'interactor',
  'stdin_file',
  'stdout_file',
  'outputs',
  'transcript',
  '__proto__',
  'constructor',
  'x',
];

function change(value: Record<string, unknown>, chance: Chance): void {
  const name = chance.one(NAMES);
  if (chance.next() < 0.25) delete value[name];
  else if (chance.next() < 0.2) {
    value['limits'] = {
      [chance.one(['cpu_time', 'memory', 'output', 'x'])]: chance.one(ODD_VALUES),
    };
  } else {
    const odd = chance.one(ODD_VALUES);
    Object.defineProperty(value, name, {
      value: odd,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
}

function damage(body: Buffer, chance: Chance): Buffer {
  const at = chance.below(body.length + 1);
  return chance.one([
    () => body.subarray(0, at),
    () =>
      Buffer.concat([body.subarray(0, at), chance.bytes(1 + chance.below(8)), body.subarray(at)]),
    () => Buffer.concat([body, body]),
    () => chance.bytes(chance.below(200)),
    () => Buffer.from('['.repeat(1 + chance.below(2000))),
    () => Buffer.from(`{${'"code":"1",'.repeat(chance.below(50))}"language":"py"}`),
  ])();
}

function otherAddress(chance: Chance): { method: string; path: string } {
  const method = chance.one([
    'GET',
    'GET',
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'DELETE',
    'OPTIONS',
    'PATCH',
  ]);
  const odd = () => encodeURIComponent(chance.bytes(chance.below(20)).toString('latin1'));
  const id = () => chance.one([crypto.randomUUID(), odd(), 'x', '%', '%zz', '..']);
  const path = chance.one([
    () => `/api/result/${id()}`,
    () => `/api/result/${id()}?${oddQuery(chance)}`,
    () => `/api/${odd()}`,
    () => `/${odd()}`,
    () =>
      chance.one([
        '/',
        '/livez',
        '/readyz',
        '/openapi.json',
        '/api/languages',
        '/api/health',
        '/api/test-sets',
        `/api/test-sets/${id()}`,
      ]),
  ])();
  return { method, path };
}

function oddQuery(chance: Chance): string {
  const name = chance.one(['wait', 'encoding', 'x', '', '%', 'wait%00', '__proto__']);
  const value = chance.one(['false', '', 'base64', '%zz', '%00', 'a=b', '1']);
  return chance.one([`${name}=${value}`, name, `${name}=${value}&${name}=${value}`, '&&', '=']);
}

function oddHeader(chance: Chance): Record<string, string> {
  const printable = () =>
    chance
      .bytes(chance.below(40))
      .toString('latin1')
      .replace(/[^\x20-\x7e]/g, '');
  return chance.one<() => Record<string, string>>([
    () => ({ 'content-type': printable() }),
    () => ({ 'idempotency-key': chance.one([crypto.randomUUID(), printable(), '""']) }),
    () => ({ prefer: chance.one([printable(), 'wait=0', 'wait=-1']) }),
    () => ({ traceparent: printable() }),
    () => ({ 'content-encoding': printable() }),
    () => ({ 'x-api-key': printable() }),
    () => ({ 'x-request-id': printable() }),
    () => ({ expect: printable() }),
  ])();
}

function send(port: number, agent: Agent, { method, path, headers, body }: Sent) {
  return new Promise<Answer | null>((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': body.length };
    const options = {
      host: '127.0.0.1',
      port,
      agent,
      method,
      path,
      headers: { ...headers, ...length },
    };
    const req = request(options, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk) => chunks.push(chunk));
      res.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: res.statusCode!, headers: res.headers, text });
      });
    });
    req.on('error', (error: NodeJS.ErrnoException) => {
      // Rejected before the whole body was sent: the answer may be lost with the connection, as with any server.
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') resolve(null);
      else reject(error);
    });
    req.end(body);
  });
}

/** Bytes that are not HTTP, or almost: the connection ends, with a 400 or without. */
async function rawBytes(fuzzer: Fuzzer, tally: Tally): Promise<void> {
  const { chance, service, key } = fuzzer;
  const { port } = chance.one(service.webs);
  const head = `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"a":1}   `;
  const bytes =
    chance.next() < 0.5 ? chance.bytes(1 + chance.below(400)) : damage(Buffer.from(head), chance);
  await sendRaw(port, bytes, tally, 1);
}

async function sendRaw(port: number, bytes: Buffer, tally: Tally, n: number): Promise<void> {
  const line = wire(port);
  line.socket.end(bytes);
  const text = await line.ended();
  line.socket.destroy();
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((found) => found[1]!);
  if (n < TRIES && statuses[0] === '503' && isSlow(text.slice(text.indexOf('\r\n\r\n')))) {
    count(tally, 'slow');
    return sendRaw(port, bytes, tally, n + 1);
  }
  count(tally, `raw ${statuses[0] ?? 'closed'}`);
  if (statuses.some((status) => status >= '500'))
    tally.odd.push(`${bytes.toString('latin1')} -> ${text}`);
}
