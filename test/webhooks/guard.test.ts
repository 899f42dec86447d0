import t from 'tap';
import { URL_LIMIT_BYTES } from '../../src/domain/webhook_secret.ts';
import { parseWebhookUrl, resolveTarget, type Target } from '../../src/webhooks/guard.ts';
import type { Resolver } from '../../src/webhooks/resolve.ts';
import data from './addresses.json' with { type: 'json' };

const production = { allow_loopback: false };
const development = { allow_loopback: true };

const MESSAGES: Record<string, string> = {
  'not a host': 'is not a URL with a valid host',
  'not a name': 'has a host that is not a valid DNS name',
  'local name': 'names this machine (loopback), which is not allowed',
};

const targetOf = (url: string, options = development): Target => {
  const parsed = parseWebhookUrl(url, options);
  if (parsed.kind === 'blocked') throw new Error(`${url} ${parsed.message}`);
  return parsed.target;
};
const problem = (url: string, options = production) => {
  const parsed = parseWebhookUrl(url, options);
  return parsed.kind === 'blocked' ? parsed.message : null;
};
const answering =
  (...addresses: string[]): Resolver =>
  async () => ({ kind: 'addresses', addresses });
const signal = new AbortController().signal;

t.test('every spelling of a host is checked in the form that would be dialled', async (t) => {
  let cases = 0;
  for (const [group, rows] of Object.entries(data.hosts)) {
    for (const [host, canonical, why] of rows) {
      const message =
        why === null ? null : (MESSAGES[why!] ?? `has an address that is not allowed (${why})`);
      t.equal(problem(`https://${host}/hook`), message, `${group}: ${host}`);
      t.equal(
        URL.parse(`https://${host}/`)?.hostname.replace(/^\[|\]$|\.$/g, '') ?? null,
        canonical,
        `${host} is ${canonical}`,
      );
      cases += 1;
    }
  }
  t.ok(cases + data.answers.length >= 150, `${cases} hosts and ${data.answers.length} answers`);
});

t.test(
  'every address of a DNS answer is checked, and so are the edges of each range',
  async (t) => {
    for (const [address, why] of data.answers) {
      const found = await resolveTarget(
        targetOf('https://hooks.example.com/'),
        answering(address!),
        production,
        signal,
      );
      const expected =
        why === null
          ? { kind: 'addresses', addresses: [address] }
          : { kind: 'blocked_address', address, range: why };
      t.same(found, expected, `${JSON.stringify(address)}: ${why ?? 'dialled'}`);
    }
  },
);

t.test('one blocked address blocks the whole answer, at any position', async (t) => {
  const target = targetOf('https://hooks.example.com/');
  const good = ['93.184.216.34', '2606:4700:4700::1111'];
  for (const at of [0, 1, 2]) {
    const answer = good.toSpliced(at, 0, '10.0.0.1');
    const found = await resolveTarget(target, answering(...answer), production, signal);
    t.same(
      found,
      { kind: 'blocked_address', address: '10.0.0.1', range: 'private' },
      answer.join(' '),
    );
  }
  t.same(await resolveTarget(target, answering(...good), production, signal), {
    kind: 'addresses',
    addresses: good,
  });
});

t.test('of a long answer only the first of each family are dialled', async (t) => {
  const target = targetOf('https://hooks.example.com/');
  const public_4 = Array.from({ length: 200 }, (_, n) => `93.184.216.${n}`);
  const public_6 = Array.from({ length: 200 }, (_, n) => `2606:4700:4700::${n + 1}`);
  const found = await resolveTarget(
    target,
    answering(...public_6, ...public_4),
    production,
    signal,
  );
  const addresses = [...public_6.slice(0, 4), ...public_4.slice(0, 4)];
  t.same(found, { kind: 'addresses', addresses });
  const again = answering(...Array.from({ length: 200 }, () => public_4[0]!), public_6[0]!);
  t.same(
    await resolveTarget(target, again, production, signal),
    { kind: 'addresses', addresses: [public_4[0]!, public_6[0]!] },
    'an address is dialled once',
  );
  const last = answering(...public_4, '10.0.0.1');
  t.match(await resolveTarget(target, last, production, signal), { kind: 'blocked_address' });
});

t.test('an empty DNS answer and a failed lookup are both dns_failed', async (t) => {
  const target = targetOf('https://hooks.example.com/');
  t.same(await resolveTarget(target, answering(), production, signal), {
    kind: 'dns_failed',
    code: 'ENODATA',
  });
  const failing: Resolver = async () => ({ kind: 'dns_failed', code: 'ESERVFAIL' });
  t.same(await resolveTarget(target, failing, production, signal), {
    kind: 'dns_failed',
    code: 'ESERVFAIL',
  });
});

t.test('a literal address is checked without a resolver', async (t) => {
  const never: Resolver = () => t.fail('the resolver was asked') as never;
  const found = await resolveTarget(targetOf('https://93.184.216.34/'), never, production, signal);
  t.same(found, { kind: 'addresses', addresses: ['93.184.216.34'] });
  const v6 = await resolveTarget(
    targetOf('https://[2606:4700:4700::1111]/'),
    never,
    production,
    signal,
  );
  t.same(v6, { kind: 'addresses', addresses: ['2606:4700:4700::1111'] });
});

t.test('the text of a URL is checked before the parser repairs it', async (t) => {
  const cases: [string, string | null][] = [
    ['https://hooks.example.com/a?b=c#d', null],
    ['HTTPS://hooks.example.com', null],
    ['https://hooks.example.com:8443/', null],
    ['https://hooks.example.com/\u00fc', null],
    ['https://hooks.example.com/%5c', null],
    ['http://hooks.example.com/', 'must begin with https://'],
    ['http://127.0.0.1/', 'must begin with https://'],
    ['ftp://hooks.example.com/', 'must begin with https:// and a host'],
    ['file:///etc/passwd', 'must begin with https:// and a host'],
    ['javascript:alert(1)', 'must begin with https:// and a host'],
    ['https:hooks.example.com', 'must begin with https:// and a host'],
    ['https:///hooks.example.com', 'must begin with https:// and a host'],
    ['https://', 'must begin with https:// and a host'],
    ['//hooks.example.com', 'must begin with https:// and a host'],
    ['', 'must begin with https:// and a host'],
    ['hooks.example.com', 'must begin with https:// and a host'],
    ['https://user:pass@hooks.example.com/', 'must not have a user name or password'],
    ['https://user@hooks.example.com/', 'must not have a user name or password'],
    ['https://@hooks.example.com/', 'must not have a user name or password'],
    ['https://:@hooks.example.com/', 'must not have a user name or password'],
    ['https://hooks.example.com@127.0.0.1/', 'must not have a user name or password'],
    ['https://hooks.example.com/@user', null],
    [
      'https://hooks.example.com\\@127.0.0.1/',
      'has white space, a control character or a backslash in it',
    ],
    ['https:\\\\hooks.example.com/', 'has white space, a control character or a backslash in it'],
    [' https://hooks.example.com/', 'has white space, a control character or a backslash in it'],
    ['https://hooks.example.com/\n', 'has white space, a control character or a backslash in it'],
    ['ht\ttps://hooks.example.com/', 'has white space, a control character or a backslash in it'],
    [
      'https://hooks.example.com/\r\nHost: evil',
      'has white space, a control character or a backslash in it',
    ],
    [
      'https://hooks.example.com/\u0000',
      'has white space, a control character or a backslash in it',
    ],
    ['https://127.0.0.1\u00a0/', 'has white space, a control character or a backslash in it'],
    ['https://hooks.example.com:0/', 'has port 0, which no one can listen on'],
    ['https://hooks.example.com:65536/', 'is not a URL with a valid host'],
    ['https://hooks.example.com:x/', 'is not a URL with a valid host'],
    ['https://127.0.0.1:8443/', 'has an address that is not allowed (loopback)'],
  ];
  for (const [url, message] of cases) t.equal(problem(url), message, JSON.stringify(url));
});

t.test('the length limit counts bytes, and a URL of exactly that length passes', async (t) => {
  const start = 'https://hooks.example.com/';
  const fitting = start + 'a'.repeat(URL_LIMIT_BYTES - start.length);
  t.equal(problem(fitting), null);
  t.equal(problem(`${fitting}a`), `is longer than ${URL_LIMIT_BYTES} bytes`);
  t.equal(problem(`${fitting.slice(0, -1)}\u00fc`), `is longer than ${URL_LIMIT_BYTES} bytes`);
});

t.test('the development setting allows loopback and nothing else', async (t) => {
  for (const url of [
    'https://127.0.0.1/',
    'http://127.0.0.1:8080/',
    'http://[::1]/',
    'http://localhost:3000/',
    'https://localhost/',
  ]) {
    t.equal(problem(url, development), null, url);
    t.not(problem(url), null, `${url} in production`);
  }
  for (const url of [
    'https://10.0.0.1/',
    'https://[fe80::1]/',
    'https://169.254.169.254/',
    'https://[::ffff:127.0.0.1]/',
    'http://8.8.8.8/',
  ]) {
    t.not(problem(url, development), null, url);
  }
  const plain = targetOf('http://dev.example.com/');
  t.same(await resolveTarget(plain, answering('127.0.0.1', '::1'), development, signal), {
    kind: 'addresses',
    addresses: ['127.0.0.1', '::1'],
  });
  t.match(await resolveTarget(plain, answering('127.0.0.1', '8.8.8.8'), development, signal), {
    kind: 'blocked_address',
    range: 'plain http beyond loopback',
  });
  t.match(
    await resolveTarget(
      targetOf('https://dev.example.com/'),
      answering('127.0.0.1'),
      production,
      signal,
    ),
    { kind: 'blocked_address', range: 'loopback' },
  );
});

t.test('a target keeps the host to dial apart from the Host header', async (t) => {
  t.same(targetOf('https://Hooks.Example.com.:8443/a/../b?c=d#e'), {
    scheme: 'https',
    hostname: 'hooks.example.com',
    port: 8443,
    path: '/b?c=d',
    authority: 'hooks.example.com:8443',
    is_literal: false,
  });
  t.match(targetOf('https://[2606:4700:4700:0::1111]'), {
    hostname: '2606:4700:4700::1111',
    port: 443,
    path: '/',
    authority: '[2606:4700:4700::1111]',
    is_literal: true,
  });
  t.match(targetOf('http://127.1:80/'), {
    hostname: '127.0.0.1',
    port: 80,
    authority: '127.0.0.1',
    is_literal: true,
  });
});
