/** The parts of the console that need no database: templates, cookies, the bound of sign-ins, and what is kept for all viewers. */
import type { IncomingMessage } from 'node:http';
import t from 'tap';
import { bytesText, durationText } from '../../src/domain/units_text.ts';
import { createKnownSessions } from '../../src/http/console/known_sessions.ts';
import { createLive } from '../../src/http/console/live.ts';
import { minutesToRead, withMinutes } from '../../src/http/console/live_minutes.ts';
import { html } from '../../src/http/console/markup.ts';
import {
  cookieOf,
  formToken,
  isFormToken,
  isSameOrigin,
  newSession,
  readSession,
} from '../../src/http/console/session_cookie.ts';
import { createSignInLimit, routedAddress } from '../../src/http/console/sign_in_limit.ts';
import { phasesOf } from '../../src/http/console/submission_picture.ts';
import type { ShownEvent } from '../../src/store/console.ts';
import type { Minute, Now } from '../../src/store/console_now.ts';

const MINUTE_MS = 60_000;
const NOON = Date.parse('2026-11-23T12:00:30Z');

t.test('a template escapes every value that another template did not make', async (t) => {
  const odd = '<b class="x">&\'</b>';
  t.equal(html`<p title="${odd}">${odd}</p>`.text, html`<p title="${odd}">${[odd]}</p>`.text);
  t.equal(html`<i>${odd}</i>`.text, "<i>&lt;b class=&quot;x&quot;&gt;&amp;'&lt;/b&gt;</i>");
  t.equal(html`<i>${'\u202ea\u0000\n\t'}</i>`.text, '<i>\\u202ea\\u0000\n\t</i>');
  t.equal(html`${html`<b>${1}</b>`}${null}${undefined}${false}${0}`.text, '<b>1</b>0');
});

const request = (headers: Record<string, string>) => ({ headers }) as unknown as IncomingMessage;

t.test('a cookie gives the session back, once and whole', async (t) => {
  const session = newSession();
  for (const over_tls of [true, false]) {
    const cookie = cookieOf(session, 43_200, over_tls);
    t.match(cookie, /; HttpOnly; SameSite=Strict; Max-Age=43200$/);
    t.equal(/^__Host-.*; Path=\/; Secure;/.test(cookie), over_tls);
    const [pair] = cookie.split(';');
    t.same(readSession(request({ cookie: `a=b; ${pair}` }), over_tls), session);
    t.equal(readSession(request({ cookie: `${pair}; ${pair}` }), over_tls), null, 'two of them');
    t.equal(readSession(request({ cookie: `${pair}x` }), over_tls), null);
    t.equal(readSession(request({ cookie: pair! }), !over_tls), null, 'of the other kind');
  }
  t.equal(readSession(request({}), false), null);
});

t.test('a form belongs to its session and comes from this service', async (t) => {
  const session = newSession();
  t.ok(isFormToken(session, formToken(session)));
  t.notOk(isFormToken(session, formToken(newSession())));
  t.notOk(isFormToken(session, ''));
  const host = 'judge.example';
  for (const [headers, expected] of [
    [{ host, 'sec-fetch-site': 'same-origin' }, true],
    [{ host, 'sec-fetch-site': 'same-site', origin: `https://${host}` }, false],
    [{ host, 'sec-fetch-site': 'cross-site' }, false],
    [{ host, 'sec-fetch-site': 'none' }, false],
    [{ host, origin: `https://${host}` }, true],
    [{ host, origin: `https://${host}.evil.example` }, false],
    [{ host, origin: 'null' }, false],
    [{ host }, false],
  ] as const)
    for (const over_tls of [true, false])
      t.equal(isSameOrigin(request(headers), over_tls), expected, JSON.stringify(headers));
  const plain = request({ host, origin: `http://${host}` });
  t.equal(isSameOrigin(plain, false), true);
  t.equal(isSameOrigin(plain, true), false, 'a page without TLS');
});

t.test('attempts to sign in are bounded, from one address and from all', async (t) => {
  let now = 0;
  const limit = createSignInLimit(() => now);
  for (let n = 0; n < 10; n++) t.equal(limit.wait_s('a'), null);
  now = 20_000;
  t.equal(limit.wait_s('a'), 40);
  limit.forget('a');
  for (let n = 0; n < 10; n++) t.equal(limit.wait_s('a'), null, 'after a success');
  t.equal(limit.wait_s('a'), 60);
  t.equal(limit.wait_s('b'), null, 'another address');
  now = 80_000;
  t.equal(limit.wait_s('a'), null, 'a minute later');
  t.equal(limit.wait_s('b'), null);
  now = 100_000;
  for (let n = 0; n < 99; n++) t.equal(limit.wait_s(`address ${n}`), null);
  t.equal(limit.wait_s('one more'), 40, 'the oldest attempt of all is 20 s old');
  const strangers = createSignInLimit(() => now);
  strangers.forget('long ago');
  strangers.forget('operator');
  for (let n = 0; n < 100; n++) t.equal(strangers.wait_s(`address ${n}`), null);
  t.equal(strangers.wait_s('one more'), 60);
  for (let n = 0; n < 10; n++) t.equal(strangers.wait_s('operator'), null, 'signed in before');
  t.equal(strangers.wait_s('operator'), 60, 'and has the bound of one address');
  for (let n = 0; n < 99; n++) strangers.forget(`another ${n}`);
  t.equal(strangers.wait_s('long ago'), 60, 'a bounded number is remembered');
});

t.test('addresses of one IPv6 network are one address, and those of IPv4 are not', async (t) => {
  const tenFrom = (...addresses: string[]) => {
    const limit = createSignInLimit(() => 0);
    for (let n = 0; n < 10; n++) limit.wait_s(addresses[n % addresses.length]!);
    return (address: string) => limit.wait_s(address);
  };
  const waits = tenFrom('2001:db8:1:2::1', '2001:db8:1:2:ffff::1.2.3.4', '2001:db8:1:2::%eth0');
  t.equal(waits('2001:DB8:1:2:0:0:0:9'), 60);
  t.equal(waits('2001:db8:1:3::1'), null, 'another network');
  t.equal(tenFrom('::1')('::2'), 60);
  t.equal(tenFrom('fe80::1%eth0')('fe80::2%eth1'), 60);
  const ipv4 = tenFrom('192.0.2.1', '::ffff:192.0.2.1');
  t.equal(ipv4('::FFFF:192.0.2.1'), 60);
  t.equal(ipv4('::ffff:192.0.2.2'), null, 'another address');
  t.equal(tenFrom('no address')('no address'), 60);
});

t.test('the address that a router saw has neither its port nor brackets', async (t) => {
  for (const [forwarded, expected] of [
    ['203.0.113.7', '203.0.113.7'],
    ['203.0.113.7:4711', '203.0.113.7'],
    ['198.51.100.1, 203.0.113.7:4711 ', '203.0.113.7'],
    ['[2001:db8::1]:80', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['2001:db8::1:80', '2001:db8::1:80'],
    ['::ffff:203.0.113.7', '::ffff:203.0.113.7'],
    ['[::ffff:203.0.113.7]:1', '::ffff:203.0.113.7'],
    ['unknown', 'peer'],
    ['_hidden:1', 'peer'],
    ['[203.0.113.7', 'peer'],
    ['203.0.113.7:x', 'peer'],
    ['203.0.113.7,', 'peer'],
    ['1'.repeat(1000), 'peer'],
    [undefined, 'peer'],
  ] as const)
    t.equal(routedAddress(forwarded, 'peer'), expected, String(forwarded));
});

t.test('sessions that are none push out no operator', async (t) => {
  const asked: string[] = [];
  const sessions = createKnownSessions({
    anyOperator: async () => true,
    nameOf: async (session) => {
      asked.push(Buffer.from(session).toString());
      return asked.at(-1) === 'alice' ? 'alice' : null;
    },
  });
  const named = (session: string) => sessions.nameOf(Buffer.from(session));
  t.equal(await named('alice'), 'alice');
  for (let n = 0; n < 2_000; n++) await named(`stranger ${n}`);
  t.equal(await named('alice'), 'alice');
  t.equal(await named('stranger 1999'), null);
  t.equal(asked.length, 2_001, 'each was asked for once');
  await named('stranger 0');
  t.equal(asked.length, 2_002, 'and a bounded number of strangers is kept');
});

t.test('a session is asked for once while it is kept, and a failure is not kept', async (t) => {
  let now = 0;
  let asked = 0;
  let fails = true;
  const sessions = createKnownSessions(
    {
      anyOperator: async () => true,
      nameOf: async () => {
        asked += 1;
        if (fails) throw new Error('the database is away');
        return 'alice';
      },
    },
    () => now,
  );
  const session = Buffer.from('digest');
  await t.rejects(sessions.nameOf(session), /away/);
  fails = false;
  t.same(await Promise.all([sessions.nameOf(session), sessions.nameOf(session)]), [
    'alice',
    'alice',
  ]);
  t.equal(asked, 2);
  now = 10_000;
  await sessions.nameOf(session);
  t.equal(asked, 3, 'after ten seconds it is asked for again');
  sessions.forget();
  await sessions.nameOf(session);
  t.equal(asked, 4);
});

const minute = (at_ms: number, change: Partial<Minute> = {}): Minute => ({
  minute: new Date(at_ms).toISOString(),
  accepted: 6,
  unfinished: 0,
  covered_s: 60,
  verdicts: { AC: 6 },
  latency_s: [0.1, 0.2, 0.3],
  ...change,
});

t.test(
  'each refresh reads the minutes that go on and some others, until all are known',
  async (t) => {
    const now = Math.floor(NOON / MINUTE_MS) * MINUTE_MS;
    let known = withMinutes(new Map(), [], NOON);
    const stuck = now - 30 * MINUTE_MS;
    let refreshes = 0;
    while (known.size < 60) {
      const read = minutesToRead(known, NOON + refreshes);
      t.same(read.slice(0, 2), [now, now - MINUTE_MS]);
      t.equal(read.length, 8);
      const found = read.map((at) => minute(at, { unfinished: at === stuck ? 1 : 0 }));
      known = withMinutes(known, found, NOON + refreshes);
      refreshes += 1;
    }
    t.equal(refreshes, 10);
    t.same(
      minutesToRead(known, NOON + refreshes),
      // The third minute may still get a submission.
      [now, now - MINUTE_MS, now - 2 * MINUTE_MS, stuck],
      'of the others, only what will change',
    );
    const later = NOON + 5 * MINUTE_MS;
    t.equal(withMinutes(known, [], later).size, 55, 'those before the last hour are forgotten');
  },
);

const NOW: Now = {
  at: new Date(NOON).toISOString(),
  queue: {
    ...{ waiting: 3, gated: 0, again: 0, running: 1, oldest_wait_s: 2, deliveries_waiting: 0 },
    ...{ workers: 2, slots: 4, unsealed: 5, unsealed_more: false },
    ...{ unsealed_s: 1, checkpoint_age_s: 1 },
  },
  deliveries_oldest_s: null,
  webs: 1,
  workers: [
    { id: 'a', host: 'a', slots: 3, toolchains: { python: '3', cpp: '12' } },
    { id: 'b', host: 'b', slots: 1, toolchains: { python: '3' } },
  ].map((worker) => ({ ...worker, running: 0, isolation: 'v2', heartbeat_s: 1, takes: true })),
  slots: { cpp: 3, python: 4 },
  running: { cpp: 1 },
  minutes: [],
};

t.test('all who look share one refresh, and a slow one delays the next', async (t) => {
  let now = NOON;
  let reads = 0;
  let answer: (now: Now) => void = () => {};
  const live = createLive(
    {
      read: () => {
        reads += 1;
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
      queue_capacity: 10,
      languages: ['python', 'java'],
      witnesses: () => [],
      sealingProblem: () => null,
    },
    () => now,
  );
  const first = [live.state(), live.state()];
  now += 5_000;
  const third = live.state();
  t.equal(reads, 1, 'it is still being read');
  const part = { accepted: 30, covered_s: 15 };
  answer({ ...NOW, minutes: [minute(NOON - 30_000, part), minute(NOON - 90_000, part)] });
  const [state] = await Promise.all([...first, third]);
  t.same(state!.languages, [
    { language: 'cpp', slots: 3, running: 1 },
    { language: 'java', slots: 0, running: 0 },
    { language: 'python', slots: 4, running: 0 },
  ]);
  t.equal(state!.queue.capacity, 10);
  t.equal(state!.hour.per_s.at(-1), 2, 'of the part that was read');
  t.equal(state!.hour.verdicts['AC']!.at(-2), 24);
  t.equal(state!.hour.verdicts['AC']!.at(-1), null, 'a minute that goes on is no whole one');
  t.ok(state!.hour.sampled);
  t.equal(state!.hour.per_s[0], null, 'not known yet');
  void live.state();
  t.equal(reads, 2);
});

t.test('a look within two seconds of the last reading reads nothing', async (t) => {
  let now = NOON;
  let reads = 0;
  let failed = false;
  const live = createLive(
    {
      read: async () => {
        reads += 1;
        if (failed) throw new Error('the database is away');
        return NOW;
      },
      queue_capacity: 10,
      languages: ['python', 'java'],
      witnesses: () => [],
      sealingProblem: () => null,
    },
    () => now,
  );
  const first = await live.state();
  now += 1_999;
  t.equal(await live.state(), first);
  t.equal(reads, 1);
  now += 1;
  failed = true;
  await t.rejects(live.state(), /away/);
  t.equal(reads, 2);
  now += 1_999;
  await t.rejects(live.state(), /away/, 'nor is a failure repeated at once');
  t.equal(reads, 2);
  failed = false;
  now += 1;
  await live.state();
  t.equal(reads, 3);
});

t.test('phases follow each other from the acceptance to the end', async (t) => {
  const event = (type: string, ms: number): ShownEvent => ({
    ...{ version: 1, type, at: new Date(NOON + ms).toISOString(), actor: 'service' },
    ...{ attempt: null, request_id: null, facts: {}, sizes: null },
  });
  const events = [
    event('submission.accepted', 0),
    event('execution.started', 10),
    event('execution.lost', 30),
    event('execution.refused', 35),
    event('execution.started', 40),
  ];
  const phase = (kind: string, from: number, to: number) => ({
    ...{ kind, from_ms: NOON + from, to_ms: NOON + to },
  });
  const before = [phase('waiting', 0, 10), phase('lost', 10, 30), phase('waiting', 30, 40)];
  t.same(phasesOf(events, NOON + 100), [...before, phase('running', 40, 100)]);
  const ended = [...events, event('submission.completed', 70), event('delivery.requested', 70)];
  t.same(phasesOf(ended, NOON + 100), [...before, phase('running', 40, 70)]);
});

t.test('measures have three figures and a unit', async (t) => {
  t.same(
    [null, 0, 12_345, 1_234_567, 600_000_000, 9e9, 9e11].map((each) => durationText(each)),
    ['–', '0 ms', '12.3 ms', '1.23 s', '10 min', '2.5 h', '10.4 d'],
  );
  t.same(
    [null, 0, 1023, 1536, 7_340_032, 5 * 2 ** 28, 3e12].map((each) => bytesText(each)),
    ['–', '0 B', '1023 B', '1.5 KiB', '7 MiB', '1.25 GiB', '2790 GiB'],
  );
});
