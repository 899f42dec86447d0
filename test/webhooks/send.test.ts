import net from 'node:net';
import t from 'tap';
import type { Resolver } from '../../src/webhooks/resolve.ts';
import {
  ANSWER_LIMIT_BYTES,
  type Attempt,
  type SendOptions,
  sendWebhook,
} from '../../src/webhooks/send.ts';
import { issue, makeAuthority } from './certificate.ts';
import {
  type Answer,
  authority,
  listen,
  openReceiver,
  RECEIVER_NAME,
  trusted,
} from './receiver.ts';

const body = Buffer.from('{"text":"ü€😀"}');
const headers = { 'content-type': 'application/json', 'webhook-id': 'an-id' };
const at = new Date('2026-01-01T00:00:00Z');
const answering =
  (...addresses: string[]): Resolver =>
  async () => ({ kind: 'addresses', addresses });

const send = (url: string, over: Partial<SendOptions> = {}): Promise<Attempt> =>
  sendWebhook(
    { url, headers, body, at },
    {
      allow_loopback: true,
      ca: trusted,
      signal: new AbortController().signal,
      resolve: answering('127.0.0.1'),
      // Long enough not to decide a test that is not about time.
      limit_ms: 60_000,
      ...over,
    },
  );
const urlTo = (port: number, name = RECEIVER_NAME) => `https://${name}:${port}/hook?a=b`;
const reply =
  (status: number, fields: Record<string, string> = {}): Answer =>
  (_got, response) =>
    void response.writeHead(status, fields).end('thanks');

t.test('sends one POST with exactly these bytes, and the name in Host and SNI', async (t) => {
  await using receiver = await openReceiver(reply(200));
  const attempt = await send(urlTo(receiver.port));
  t.match(attempt, {
    outcome: 'delivered',
    status: 200,
    detail: null,
    address: '127.0.0.1',
    retry_after_ms: null,
    answer_bytes: 6,
    answer_cut: false,
    duration_ms: Number,
  });
  t.equal(receiver.got.length, 1);
  const [got] = receiver.got;
  t.match(got, { method: 'POST', url: '/hook?a=b', sni: RECEIVER_NAME });
  t.same(got?.body, body);
  t.match(got?.headers, {
    ...headers,
    host: `${RECEIVER_NAME}:${receiver.port}`,
    'content-length': String(body.length),
  });
});

t.test(
  'the status decides, redirects are not followed, and Retry-After is read from failures',
  async (t) => {
    await using elsewhere = await openReceiver();
    const cases: [number, Attempt['outcome']][] = [
      [200, 'delivered'],
      [201, 'delivered'],
      [204, 'delivered'],
      [299, 'delivered'],
      [300, 'redirect'],
      [301, 'redirect'],
      [302, 'redirect'],
      [303, 'redirect'],
      [304, 'redirect'],
      [307, 'redirect'],
      [308, 'redirect'],
      [400, 'refused_status'],
      [401, 'refused_status'],
      [404, 'refused_status'],
      [410, 'gone'],
      [429, 'refused_status'],
      [500, 'refused_status'],
      [503, 'refused_status'],
      [999, 'refused_status'],
    ];
    for (const [status, outcome] of cases) {
      const fields = { location: urlTo(elsewhere.port), 'retry-after': '120' };
      await using receiver = await openReceiver(reply(status, fields));
      const retry_after_ms = outcome === 'delivered' || outcome === 'gone' ? null : 120_000;
      t.match(
        await send(urlTo(receiver.port)),
        { outcome, status, retry_after_ms },
        `${status} is ${outcome}`,
      );
      t.equal(receiver.got.length, 1);
    }
    t.equal(elsewhere.connections(), 0);
  },
);

t.test('a Retry-After date counts from the start of the attempt', async (t) => {
  await using receiver = await openReceiver(
    reply(503, { 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' }),
  );
  t.match(await send(urlTo(receiver.port)), { retry_after_ms: 60_000 });
});

t.test('each attempt makes its own connection', async (t) => {
  await using receiver = await openReceiver();
  await send(urlTo(receiver.port));
  await send(urlTo(receiver.port));
  t.equal(receiver.connections(), 2);
});

t.test('a DNS answer that changes after the check has no effect', async (t) => {
  await using checked = await openReceiver();
  await using rebound = await openReceiver(undefined, { host: '127.0.0.2', port: checked.port });
  const answers = [['127.0.0.1'], ['127.0.0.2'], ['10.0.0.1']];
  let asked = 0;
  const resolve: Resolver = async () => ({ kind: 'addresses', addresses: answers[asked++]! });
  t.match(await send(urlTo(checked.port), { resolve }), {
    outcome: 'delivered',
    address: '127.0.0.1',
  });
  t.equal(asked, 1, 'resolved once, and dialled the checked address');
  t.equal(rebound.connections(), 0);
  t.match(await send(urlTo(checked.port), { resolve }), {
    outcome: 'delivered',
    address: '127.0.0.2',
  });
  t.match(await send(urlTo(checked.port), { resolve }), {
    outcome: 'blocked_address',
    address: '10.0.0.1',
  });
  t.equal(checked.connections() + rebound.connections(), 2, 'checked again at each attempt');
});

t.test('a blocked address is not dialled', async (t) => {
  await using receiver = await openReceiver();
  const url = urlTo(receiver.port);
  const mixed = answering('127.0.0.1', '169.254.169.254');
  t.match(await send(url, { resolve: mixed }), {
    outcome: 'blocked_address',
    detail: 'link-local',
    address: '169.254.169.254',
  });
  t.match(await send(url, { allow_loopback: false }), {
    outcome: 'blocked_address',
    detail: 'loopback',
  });
  const literal = await send(urlTo(receiver.port, '127.0.0.1'), { allow_loopback: false });
  t.match(literal, { outcome: 'blocked_url', detail: /loopback/, status: null, address: null });
  t.equal(receiver.connections(), 0);
});

t.test('a literal address has no SNI, and its certificate must name it', async (t) => {
  await using receiver = await openReceiver();
  t.match(await send(urlTo(receiver.port, '127.0.0.1')), { outcome: 'delivered' });
  t.equal(receiver.got[0]?.sni, null);
  const certificate = issue(authority, { hosts: [RECEIVER_NAME] });
  await using unnamed = await openReceiver(undefined, { certificate });
  t.match(await send(urlTo(unnamed.port, '127.0.0.1')), {
    outcome: 'tls_failed',
    detail: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
});

t.test('plain http reaches loopback only with the development setting', async (t) => {
  await using receiver = await openReceiver(reply(200), { plain: true });
  t.match(await send(`http://127.0.0.1:${receiver.port}/`), { outcome: 'delivered' });
  t.match(await send(`http://127.0.0.1:${receiver.port}/`, { allow_loopback: false }), {
    outcome: 'blocked_url',
  });
  t.equal(receiver.connections(), 1);
});

t.test('certificates are verified, whatever the environment sets', async (t) => {
  t.intercept(process, 'env', { value: { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' } });
  const stranger = issue(makeAuthority('a stranger'), { hosts: [RECEIVER_NAME] });
  const misnamed = issue(authority, { hosts: ['other.receiver.test'] });
  const expired = issue(authority, {
    hosts: [RECEIVER_NAME],
    not_after: new Date(Date.now() - 60_000),
  });
  const cases = [
    [stranger, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    [misnamed, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [expired, 'CERT_HAS_EXPIRED'],
  ] as const;
  for (const [certificate, detail] of cases) {
    await using receiver = await openReceiver(undefined, { certificate });
    t.match(await send(urlTo(receiver.port)), {
      outcome: 'tls_failed',
      detail,
      status: null,
      address: '127.0.0.1',
    });
    t.same(receiver.got, [], 'it received no request');
  }
  await using receiver = await openReceiver();
  t.match(
    await send(urlTo(receiver.port), { ca: [] }),
    { outcome: 'tls_failed' },
    'no trusted authority',
  );
});

t.test('a receiver without TLS behind an https URL is tls_failed', async (t) => {
  await using receiver = await openReceiver(undefined, { plain: true });
  t.match(await send(urlTo(receiver.port)), { outcome: 'tls_failed', status: null });
});

t.test('when an address does not accept the connection, the next one is tried', async (t) => {
  await using receiver = await openReceiver();
  const closed = answering('127.0.0.3');
  t.match(await send(urlTo(receiver.port), { resolve: closed }), {
    outcome: 'connect_failed',
    detail: 'ECONNREFUSED',
    address: null,
  });
  const resolve = answering('127.0.0.3', '127.0.0.4', '127.0.0.1');
  t.match(await send(urlTo(receiver.port), { resolve }), {
    outcome: 'delivered',
    address: '127.0.0.1',
  });
  const all = answering('127.0.0.3', '127.0.0.4');
  t.match(await send(urlTo(receiver.port), { resolve: all }), {
    outcome: 'connect_failed',
    detail: 'ECONNREFUSED',
  });
});

t.test('a name without addresses is dns_failed', async (t) => {
  const resolve: Resolver = async () => ({ kind: 'dns_failed', code: 'ENOTFOUND' });
  t.match(await send('https://hooks.example.com/', { resolve }), {
    outcome: 'dns_failed',
    detail: 'ENOTFOUND',
  });
});

const silent: Answer = () => {};
/** A limit within which a busy machine connects, too. */
const CONNECTS_MS = 5_000;

t.test('one time limit covers everything from the lookup to the status', async (t) => {
  const limit_ms = 150;
  const never: Resolver = () => new Promise(() => {});
  t.match(await send('https://hooks.example.com/', { limit_ms, resolve: never }), {
    outcome: 'timeout',
    detail: 'lookup',
  });
  await using mute = await listen(net.createServer());
  t.match(await send(urlTo(mute.port), { limit_ms }), { outcome: 'timeout', detail: 'handshake' });
  await using receiver = await openReceiver(silent);
  const attempt = await send(urlTo(receiver.port), { limit_ms: CONNECTS_MS });
  t.match(attempt, { outcome: 'timeout', detail: 'answer', status: null, address: '127.0.0.1' });
  t.ok(attempt.duration_ms >= CONNECTS_MS - 2, `took ${attempt.duration_ms} ms`);
});

t.test('an attempt during a stop is cut_off, not a failure of the receiver', async (t) => {
  await using receiver = await openReceiver(silent);
  const stop = new AbortController();
  const sending = send(urlTo(receiver.port), { signal: stop.signal });
  await receiver.received(1);
  stop.abort();
  t.match(await sending, { outcome: 'cut_off', status: null });
  t.match(
    await send(urlTo(receiver.port), { signal: stop.signal }),
    { outcome: 'cut_off' },
    'stopped before it began',
  );
  t.equal(receiver.connections(), 1);
});

t.test('the answer is read up to a limit, and cannot change the outcome', async (t) => {
  const endless: Answer = (_got, response) => {
    response.writeHead(200);
    const more = () => void (response.destroyed || response.write(Buffer.alloc(16_384), more));
    more();
  };
  await using flood = await openReceiver(endless);
  const flooded = await send(urlTo(flood.port));
  t.match(flooded, { outcome: 'delivered', status: 200, answer_cut: true });
  t.ok(flooded.answer_bytes <= ANSWER_LIMIT_BYTES);

  await using broken = await openReceiver((_got, response) => {
    response.writeHead(200, { 'content-length': '10' });
    response.write('five!', () => response.destroy());
  });
  t.match(await send(urlTo(broken.port)), { outcome: 'delivered', answer_cut: true });

  await using stuck = await openReceiver(
    (_got, response) => void response.writeHead(503).write('x'),
  );
  t.match(await send(urlTo(stuck.port), { limit_ms: CONNECTS_MS }), {
    outcome: 'refused_status',
    status: 503,
    answer_cut: true,
  });
});

t.test('an answer without a status is answer_broken', async (t) => {
  const raw = (text: string) => {
    const answer: Answer = (_got, response) => void response.socket?.end(text);
    return openReceiver(answer);
  };
  const cases: [string, string, RegExp][] = [
    ['nothing at all', '', /ECONNRESET/],
    ['not HTTP', 'SMTP ready\r\n', /HPE_/],
    [
      'an endless head',
      `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`,
      /HPE_HEADER_OVERFLOW/,
    ],
    ['half a head', 'HTTP/1.1 200 OK\r\nA: ', /ECONNRESET/],
    ['endless 1xx answers', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(50), /TOO_MANY_1XX/],
    [
      'another protocol',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      /./,
    ],
  ];
  for (const [name, text, detail] of cases) {
    await using receiver = await raw(text);
    t.match(
      await send(urlTo(receiver.port)),
      { outcome: 'answer_broken', status: null, detail },
      name,
    );
  }
});

t.test('an early hint is not the answer', async (t) => {
  await using receiver = await openReceiver((_got, response) => {
    response.writeEarlyHints(
      { link: '</style.css>; rel=preload' },
      () => void response.writeHead(204).end(),
    );
  });
  t.match(await send(urlTo(receiver.port)), { outcome: 'delivered', status: 204 });
});
