/** GET /api/result/{id}/events: what happened and happens to a submission, in order, to the end. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, createServer, get, IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import {
  createEventStreams,
  KEY_CHECKS,
  type KeyQuestions,
  OUTPUT_BYTES_PER_KEY,
  STREAMS_PER_KEY,
  UNREAD_END_MS,
} from '../../src/http/api/event_streams.ts';
import { createEventFeed, type EventFeed, type Follower } from '../../src/store/event_feed.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { revokeKey, rotateKey } from '../../src/store/keys.ts';
import type { NumberedPiece } from '../../src/store/live_output.ts';
import { createResults } from '../../src/store/results.ts';
import { eventually, inTime } from '../support/eventually.ts';
import { call } from './support/call.ts';
import { startService } from './support/service.ts';

/** The bytes of a stream whose client has closed its half, up to `text`. */
async function halfClosed(id: string, text: string): Promise<Socket> {
  const { hostname, port } = new URL(service.webs[0]!.origin);
  const socket = new Socket({ allowHalfOpen: true }).connect(Number(port), hostname);
  socket.end(`GET ${pathOf(id)} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`);
  let got = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    got += chunk;
    if (got.includes(text)) return socket;
  }
  throw new Error(`the stream ended: ${got}`);
}

type Web = { origin: string };
type Message = { id?: string; event?: string; data?: string };

const service = await startService(t);
const [key, same_account] = [
  await service.key({ account: 'mine' }),
  await service.key({ account: 'mine' }),
];
const pathOf = (id: string) => `/api/result/${id}/events`;
const agent = new Agent({ maxSockets: Infinity });
t.teardown(() => agent.destroy());

async function open(
  path: string,
  headers: Record<string, string> = {},
  web: Web = service.webs[0]!,
) {
  for (;;) {
    const request = get(`${web.origin}${path}`, {
      agent,
      headers: { 'X-API-Key': key, ...headers },
    });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    // On a busy machine the database may take too long for some of many.
    if (response.statusCode !== 503) return response;
    response.resume();
    await wait(1_000);
  }
}

/** Reads messages as they come; `next` gives null when the stream has ended. */
function reader(response: IncomingMessage) {
  const messages = parse(response);
  return async (): Promise<Message | null> => {
    const { value, done } = await messages.next();
    return done ? null : value;
  };
}

async function* parse(response: IncomingMessage): AsyncGenerator<Message> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const fields = block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2));
      const message: Message = Object.fromEntries(fields.filter(([name]) => name !== ''));
      if (message.event !== undefined) yield message;
    }
  }
}

async function untilStarted(next: () => Promise<Message | null>): Promise<void> {
  for (let message = await next(); message?.event !== 'started'; message = await next())
    if (message === null) throw new Error('the stream ended before the start');
}

const all = (next: () => Promise<Message | null>) => inTime(gather(next), 'the end of the stream');

async function gather(next: () => Promise<Message | null>): Promise<Message[]> {
  const found: Message[] = [];
  for (let message = await next(); message; message = await next()) found.push(message);
  return found;
}

/** The streams of a web process, on a server of this process: what it calls and when is up to the test. */
async function streamsInTest(
  t: Test,
  questions: Partial<KeyQuestions> = {},
  checks = KEY_CHECKS,
  unread_end_ms = UNREAD_END_MS,
) {
  const { knows } = createResults(service.db);
  const onFault = (error: unknown) => t.fail(String(error));
  const feed = createEventFeed(service.db, onFault);
  const streams = createEventStreams(
    feed,
    { knows, onFault, ...questions },
    20_000,
    checks,
    unread_end_ms,
  );
  const answers: ServerResponse[] = [];
  const server = createServer(async (req, res) => {
    answers.push(res);
    const update = (await feed.read(req.url!.slice(1), 0))!;
    const digest = secretDigest(String(req.headers['x-api-key']));
    const stream = { key_id: '', digest, id: req.url!.slice(1), update, after: 0 };
    res.once('close', streams.open(res, stream));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    streams.close();
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const follow = (id: string, own = key) => open(`/${id}`, { 'X-API-Key': own }, { origin });
  return { streams, answers, follow };
}

t.test('a stream ends with its key, and the streams of other keys go on', async (t) => {
  const other = await service.key();
  const [ended, open_still] = [other, key].map(async (own) => {
    const { id } = (await service.submit(own)).json;
    const next = reader(await open(pathOf(id), { 'X-API-Key': own }));
    t.match(await next(), { event: 'accepted' });
    return { id, next };
  });
  const { id } = await ended!;
  const { id: still, next } = await open_still!;
  await revokeKey(service.db, await keyIdOf(id));
  t.same(await all((await ended!).next), []);
  await service.worker.finish(still);
  t.match(await all(next), [{ event: 'started' }, { event: 'completed' }]);
  await service.worker.finish(id);
});

/** Of the key with this submission. */
async function keyIdOf(id: string): Promise<string> {
  const [row] = await service.db<{ key_id: string }[]>`
    select key_id from runledger.submissions where id = ${id}`;
  return row!.key_id;
}

t.test('a key that the database did not answer about is asked about again', async (t) => {
  const own = await service.key();
  const { id } = (await service.submit(own)).json;
  const { knows } = createResults(service.db);
  let failures = 0;
  const failing = async (digest: Uint8Array) => {
    if (failures === 3) return knows(digest);
    failures += 1;
    throw new Error('the database is away');
  };
  const questions = { knows: failing, onFault: () => {} };
  const { streams, follow } = await streamsInTest(t, questions, { ...KEY_CHECKS, retry_ms: 1 });
  const next = reader(await follow(id, own));
  t.match(await next(), { event: 'accepted' });
  await revokeKey(service.db, await keyIdOf(id));
  streams.checkKeys();
  t.same(await all(next), []);
  t.equal(failures, 3);
  await service.worker.finish(id);
});

t.test('keys are checked now and then, while there are streams', async (t) => {
  const own = await service.key();
  const { id } = (await service.submit(own)).json;
  const { knows } = createResults(service.db);
  let asked = 0;
  const counting = (digest: Uint8Array) => {
    asked += 1;
    return knows(digest);
  };
  const often = { ...KEY_CHECKS, every_ms: 1 };
  const { streams, follow } = await streamsInTest(t, { knows: counting }, often);
  const next = reader(await follow(id, own));
  t.match(await next(), { event: 'accepted' });
  t.ok(await eventually(() => asked > 1));
  t.equal(streams.count, 1, 'a key that is one still keeps its stream');
  // These streams hear of no change, as if a grace had ended.
  const secret_digest = secretDigest(newSecret('rl'));
  await rotateKey(service.db, { id: await keyIdOf(id), secret_digest, grace_ms: 0 });
  t.same(await all(next), []);
  await service.worker.finish(id);
});

t.test('each event comes as it happens, and the stream ends after the last', async (t) => {
  const { id } = (await service.submit(key)).json;
  const response = await open(pathOf(id));
  t.match(response.headers, { 'content-type': 'text/event-stream; charset=utf-8' });
  const next = reader(response);
  t.match(await next(), { id: '1', event: 'accepted' });
  const attempt = await service.worker.start(id);
  const started = (await next())!;
  t.match(started, { id: '2', event: 'started' });
  t.match(JSON.parse(started.data!), { attempt: 1, at: /^\d{4}-.*Z$/ });
  await service.worker.executions.progress({ submission_id: id, attempt, done: 1, of: 3 });
  t.same(await next(), { event: 'progress', data: '{"done":1,"of":3}' });
  await service.worker.executions.release([id], 'no_slot');
  const lost = (await next())!;
  t.match(lost, { id: '3', event: 'lost' });
  t.match(JSON.parse(lost.data!), { reason: 'no_slot' });
  await service.worker.start(id);
  t.match(await next(), { id: '4', event: 'started' });
  await service.worker.finish(id);
  const completed = (await next())!;
  t.match(completed, { id: '5', event: 'completed' });
  t.match(JSON.parse(completed.data!), { attempt: 2, verdict: 'AC' });
  t.equal(await next(), null);

  t.test('Last-Event-ID continues behind that event, also when all is over', async (t) => {
    const from = async (last: string) => {
      const left = await all(reader(await open(pathOf(id), { 'Last-Event-ID': last })));
      return left.map((message) => message.id);
    };
    t.same(await from('0'), ['1', '2', '3', '4', '5']);
    t.same(await from('3'), ['4', '5']);
    for (const last of ['5', '999999999']) {
      const after = await open(pathOf(id), { 'Last-Event-ID': last });
      t.equal(after.statusCode, 204, 'so that a browser does not try again');
      after.resume();
    }
  });
});

t.test('a stream ends when the submission is cancelled', async (t) => {
  const { id } = (await service.submit(key)).json;
  const next = reader(await open(pathOf(id)));
  t.match(await next(), { event: 'accepted' });
  await service.call({ path: `/api/submissions/${id}`, key, method: 'DELETE' });
  t.match(await next(), { id: '2', event: 'cancelled' });
  t.equal(await next(), null);
});

t.test('output comes while its submission runs, to those who follow it', async (t) => {
  const { id } = (await service.submit(key)).json;
  const other = (await service.submit(key)).json.id;
  const attempt = await service.worker.start(id);
  await service.worker.start(other);
  const { executions } = service.worker;
  t.same(await executions.followed([id]), [], 'nobody follows it');
  const next = reader(await open(pathOf(id)));
  const next_of_other = reader(await open(pathOf(other)));
  for (const read of [next, next_of_other]) {
    t.match(await read(), { event: 'accepted' });
    t.match(await read(), { event: 'started' });
  }
  t.ok(await eventually(async () => (await executions.followed([id, other])).length === 2));
  const piece = (begins_at: number, text: string, more: object = {}) => ({
    ...{ submission_id: id, attempt, is_stderr: false, begins_at, bytes: Buffer.from(text) },
    ...more,
  });
  const stranger = createExecutions(service.db, service.db, randomUUID());
  t.same(await stranger.followed([id]), [], 'another worker runs it');
  await stranger.show([piece(0, 'forged')]);
  await executions.show([piece(0, 'of an attempt that is over', { attempt: attempt + 1 })]);
  await executions.show([piece(0, 'é\n\nid: 9\n'), piece(0, 'oops', { is_stderr: true })]);
  await executions.show([piece(10, 'more')]);
  const data = async () => {
    const { id, event, data } = (await next())!;
    t.same([id, event], [undefined, 'output']);
    return JSON.parse(data!);
  };
  t.same(await data(), { attempt, stream: 'stdout', at: 0, text: 'é\n\nid: 9\n' });
  t.same(await data(), { attempt, stream: 'stderr', at: 0, text: 'oops' });
  t.same(await data(), { attempt, stream: 'stdout', at: 10, text: 'more' });
  // A crash of PostgreSQL empties the table, and its numbers begin again.
  await service.db`truncate runledger.output_pieces restart identity`;
  await executions.show([piece(14, '!')]);
  t.same(await data(), { attempt, stream: 'stdout', at: 14, text: '!' });
  // As much as a worker shows at once, in the characters that are longest as JSON.
  const controls = '\0'.repeat(6_400);
  await executions.show([piece(15, controls)]);
  t.same(await data(), { attempt, stream: 'stdout', at: 15, text: controls });
  await service.worker.finish(id);
  t.match(await next(), { id: '3', event: 'completed' });
  t.equal(await next(), null);
  await service.worker.finish(other);
  t.match(await next_of_other(), { event: 'completed' });

  /** How many of so many streams of a key get a piece of one byte. */
  async function sharesOf(count: number): Promise<number> {
    const { id } = (await service.submit(same_account)).json;
    const attempt = await service.worker.start(id);
    const headers = { 'X-API-Key': same_account };
    const streams = await Promise.all(
      Array.from({ length: count }, () => open(pathOf(id), headers)),
    );
    const readers = streams.map(reader);
    for (const read of readers) await untilStarted(read);
    await eventually(async () => (await executions.followed([id])).length === 1);
    const bytes = Buffer.from('x');
    await executions.show([{ submission_id: id, attempt, is_stderr: false, begins_at: 0, bytes }]);
    const shown: (string | undefined)[] = [];
    const ends = readers.map(async (next) => shown.push((await next())?.event));
    await eventually(() => shown.includes('output'));
    await service.worker.finish(id);
    await Promise.all(ends);
    return shown.filter((event) => event === 'output').length;
  }

  t.test('it is bounded for each key, and forgotten', async (t) => {
    const { id } = (await service.submit(key)).json;
    const attempt = await service.worker.start(id);
    const streams = await Promise.all(Array.from({ length: 40 }, () => open(pathOf(id))));
    const readers = streams.map(reader);
    const of_other_key = reader(await open(pathOf(id), { 'X-API-Key': same_account }));
    await untilStarted(of_other_key);
    for (const read of readers) await untilStarted(read);
    t.ok(await eventually(async () => (await executions.followed([id])).length === 1));
    // Any 32 of them get output: the share goes to streams in the order in which they reached web.
    const rest: Message[] = [];
    const ends = readers.map(async (next) => {
      for (let message = await next(); message; message = await next()) rest.push(message);
    });
    const bytes = Buffer.alloc(OUTPUT_BYTES_PER_KEY / 32, 'x');
    await executions.show([{ submission_id: id, attempt, is_stderr: false, begins_at: 0, bytes }]);
    t.ok(await eventually(() => rest.some(({ event }) => event === 'output')));
    await service.worker.finish(id);
    await Promise.all(ends);
    t.equal(rest.filter(({ event }) => event === 'output').length, 32);
    t.match(await of_other_key(), { event: 'output' }, 'another key has its own share');
    t.equal(await sharesOf(600), 512, 'a small piece takes as much of it as a thousand bytes');
    await service.db`update runledger.output_pieces set shown_at = shown_at - interval '1 minute'`;
    await service.db`select runledger.forget_output()`;
    t.equal((await service.db`select from runledger.output_pieces`).length, 0);
  });
});

t.test('events come although nothing can be said of output', async (t) => {
  const { id } = (await service.submit(key)).json;
  await service.worker.start(id);
  const next = reader(await open(pathOf(id)));
  t.match(await next(), { event: 'accepted' });
  t.match(await next(), { event: 'started' });
  await service.db`alter table runledger.output_watches rename to moved_watches`;
  t.teardown(() => service.db`alter table runledger.moved_watches rename to output_watches`);
  const { written } = service.webs[0]!;
  const failed = () => written.filter((line) => line.includes('following submissions failed'));
  t.ok(await eventually(() => failed().length > 0));
  await service.worker.finish(id);
  t.match(await next(), { event: 'completed' });
  t.equal(await next(), null);
  t.equal(failed().length, 1, 'it is logged once');
});

t.test(
  'output is written down once for all streams that get it, and not for those that do not',
  (t) => {
    const followers: Follower[] = [];
    const feed: EventFeed = {
      read: () => Promise.resolve(null),
      follow(_id, _from, follower) {
        followers.push(follower);
        return () => {};
      },
      close() {},
    };
    const questions = { knows: () => Promise.resolve(true), onFault: () => {} };
    const streams = createEventStreams(feed, questions, 20_000);
    t.teardown(() => streams.close());
    const update = { account_id: '', version: 1, ended: false, events: [], progress: null };
    const clients = Array.from({ length: 100 }, () => {
      const res = new ServerResponse(new IncomingMessage(new Socket()));
      streams.open(res, { key_id: '', digest: Buffer.alloc(0), id: '', update, after: 0 });
      return res;
    });
    const got = () => clients.filter(({ writableLength }) => writableLength > 0).length;
    let written = 0;
    const show = (size: number) => {
      const piece: NumberedPiece = {
        ...{ id: '', n: '1', is_stderr: false, begins_at: 0, bytes: Buffer.alloc(size, 'x') },
        get attempt() {
          written += 1;
          return 1;
        },
      };
      for (const { onOutput } of followers) onOutput(piece);
    };
    show(OUTPUT_BYTES_PER_KEY / 32);
    t.same({ written, got: got() }, { written: 1, got: 32 }, 'it reaches as many as it may');
    show(OUTPUT_BYTES_PER_KEY / 32);
    t.same({ written, got: got() }, { written: 1, got: 32 }, 'the key has got all of its share');
    t.end();
  },
);

t.test(
  'a stream that is opened while the process stops ends behind the events so far',
  async (t) => {
    const { id } = (await service.submit(key)).json;
    const { streams, answers, follow } = await streamsInTest(t);
    streams.close();
    const response = await follow(id);
    t.ok(answers[0]!.writableEnded);
    if (answers[0]!.writableEnded)
      t.match(await all(reader(response)), [{ id: '1', event: 'accepted' }]);
    await service.worker.finish(id);
  },
);

t.test(
  'a stream that has ended does not wait for ever for a client that reads nothing',
  async (t) => {
    const { id } = (await service.submit(key)).json;
    const { streams, answers, follow } = await streamsInTest(t, {}, KEY_CHECKS, 100);
    await follow(id, key);
    const res = answers[0]!;
    // Until the buffers on the way are full.
    do {
      res.write(`: ${'x'.repeat(16_384)}\n\n`);
      await new Promise(setImmediate);
    } while (res.writableLength === 0 && !res.writableEnded);
    t.notOk(res.writableEnded);
    await service.worker.finish(id);
    t.ok(await eventually(() => res.writableEnded));
    t.ok(await eventually(() => streams.count === 0, 60_000));
  },
);

t.test('a stream that begins with very many events has all of them', async (t) => {
  const { id } = (await service.submit(key)).json;
  const TIMES = 450;
  for (let n = 0; n < TIMES; n++) {
    await service.worker.start(id);
    await service.worker.executions.release([id], 'no_slot');
  }
  await service.worker.start(id);
  const next = reader(await open(pathOf(id)));
  const seen: (string | undefined)[] = [];
  while (seen.length < 2 * TIMES + 2) seen.push((await next())?.id);
  const expected = Array.from({ length: 2 * TIMES + 2 }, (_, n) => `${n + 1}`);
  // As texts: to show how two long lists differ takes minutes.
  t.equal(seen.join(' '), expected.join(' '));
  await service.worker.finish(id);
  t.match(await next(), { event: 'completed' });
});

t.test('only the account of the submission may follow it', async (t) => {
  const { id } = (await service.submit(key)).json;
  const other = await service.key();
  for (const path of [pathOf(id), pathOf(randomUUID())])
    t.match(await service.call({ path, key: other }), {
      status: 404,
      json: { error: 'not_found' },
    });
  t.equal((await service.call({ path: pathOf(id) })).status, 401);
  for (const last of ['-1', '1.5', 'x', '1234567890'])
    t.match(
      await service.call({ path: pathOf(id), key, headers: { 'last-event-id': last } }),
      { status: 400, json: { fields: [{ path: 'last-event-id' }] } },
      last,
    );
  t.equal((await service.call({ path: pathOf('7'), key })).status, 400);
  t.equal((await service.call({ path: `${pathOf(id)}?wait=true`, key })).status, 400);
  const head = await call(service.webs[0]!.origin, { method: 'HEAD', path: pathOf(id), key });
  t.match(head, { status: 200, text: '' });
  await service.worker.finish(id);
});

t.test('streams take a part of the connections, and those of a key a smaller one', (t) => {
  const questions = { knows: () => Promise.resolve(true), onFault: () => {} };
  const feed = { follow: () => () => {}, close: () => {} };
  const streams = createEventStreams(feed, questions, 20);
  t.teardown(() => streams.close());
  const update = { account_id: '', version: 1, ended: false, events: [], progress: null };
  const open = (key_id: string) => {
    const res = new ServerResponse(new IncomingMessage(new Socket()));
    return streams.open(res, { key_id, digest: Buffer.alloc(0), id: '', update, after: 0 });
  };
  const stops = ['a', 'a', 'a'].map((key) => {
    t.equal(streams.fullOf(key), null);
    return open(key);
  });
  t.same(streams.fullOf('a'), { who: 'key', most: 3 });
  for (const key of ['b', 'b', 'b', 'c', 'c', 'c', 'd']) {
    t.equal(streams.fullOf(key), null);
    open(key);
  }
  t.same(streams.fullOf('d'), { who: 'process', most: 10 });
  stops[0]!();
  t.equal(streams.fullOf('d'), null);
  t.end();
});

t.test('a key has a bounded number of streams, and a closed one makes place', async (t) => {
  const { id } = (await service.submit(key)).json;
  const streams: IncomingMessage[] = [];
  while (streams.length < STREAMS_PER_KEY) {
    const more = await Promise.all(Array.from({ length: 100 }, () => open(pathOf(id))));
    streams.push(...more);
  }
  t.ok(streams.every(({ statusCode }) => statusCode === 200));
  const { origin } = service.webs[0]!;
  const another = () => call(origin, { path: pathOf(id), key });
  t.match(await another(), { status: 429, json: { error: 'rate_limited' } });
  t.match((await another()).json.message, /1000 open event streams/);
  const of_other_key = await open(pathOf(id), { 'X-API-Key': same_account });
  t.equal(of_other_key.statusCode, 200, 'another key has its own number');
  for (const stream of streams) stream.destroy();
  await service.worker.finish(id);
  let last = await another();
  const isFree = async () => {
    last = await another();
    return last.status !== 429;
  };
  t.ok(await eventually(isFree));
  t.match(last.text, /event: completed/);
});

t.test(
  'a client that has closed its half is asked whether it is there, and its stream goes on',
  async (t) => {
    const { id } = (await service.submit(key)).json;
    const socket = await halfClosed(id, ': are you there\n\n');
    await service.worker.finish(id, { verdict: 'AC' });
    let rest = '';
    for await (const chunk of socket) rest += chunk;
    t.match(rest, /event: completed\n/);
  },
);

t.test('a process that stops ends its streams, and another continues them', async (t) => {
  const { id } = (await service.submit(key)).json;
  const next = reader(await open(pathOf(id)));
  const first = (await next())!;
  service.webs[0]!.process.kill('SIGTERM');
  t.equal(await next(), null);
  const rest = reader(await open(pathOf(id), { 'Last-Event-ID': first.id! }, service.webs[1]!));
  await service.worker.finish(id);
  t.same(
    (await all(rest)).map(({ event }) => event),
    ['started', 'completed'],
  );
});
