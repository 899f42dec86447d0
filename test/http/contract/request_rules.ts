/** Rules of the request's body. */
import { equal, match, ok } from 'node:assert/strict';
import type { Reply } from '../support/call.ts';
import { HELLO } from '../support/service.ts';
import { keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';

const { seed, contract } = chapter('submission request');

const LIMIT = 65_536;
const HOOK = { webhook_url: 'https://hooks.example.com/x', webhook_secret: 's' };

async function send(stage: Stage, body: object | string): Promise<Reply> {
  const service = await stage.plain();
  return service.submit(await keyOf(service), body as object);
}

async function taken(stage: Stage, body: object | string): Promise<string> {
  const reply = await send(stage, body);
  equal(reply.status, 202, reply.text);
  return reply.json.id;
}

/** Sends a body that must be rejected, with an answer that names these fields and no others. */
async function rejected(stage: Stage, body: object | string, ...paths: string[]): Promise<Reply> {
  const reply = await send(stage, body);
  rejectedFor(reply, ...paths);
  return reply;
}

const hello = (more: object) => ({ ...HELLO, ...more });
const storedBytes = async (stage: Stage, id: string, kind: string): Promise<Buffer | undefined> => {
  const { db } = await stage.plain();
  const [row] = await db<{ bytes: Buffer }[]>`
    select bytes from runledger.payloads where stream = ${id} and kind = ${kind}`;
  return row?.bytes;
};

export const requestRules: Rule[] = [
  seed('language is required', (s) => rejected(s, { code: '' }, 'language')),
  seed('code is required', (s) => rejected(s, { language: 'py' }, 'code')),
  seed('the accepted languages are python, py, cpp, c++, cxx, java', async (s) => {
    for (const language of ['python', 'py', 'cpp', 'c++', 'cxx', 'java']) {
      await taken(s, { language, code: '' });
    }
  }),
  seed('any other language is a 400', async (s) => {
    for (const language of ['ruby', '', 'python3', 'c', 'python ', 7, null, ['py'], {}]) {
      await rejected(s, { language, code: '' }, 'language');
    }
  }),
  contract('language is case-sensitive', async (s) => {
    for (const language of ['Python', 'CPP', 'C++', 'JAVA']) {
      await rejected(s, { language, code: '' }, 'language');
    }
  }),
  contract('aliases are stored and shown by their canonical name', async (s) => {
    const service = await s.plain();
    const canonical = { py: 'python', 'c++': 'cpp', cxx: 'cpp', java: 'java' };
    for (const [language, name] of Object.entries(canonical)) {
      const id = await taken(s, { language, code: '' });
      const reply = await service.call({ path: `/api/result/${id}`, key: await keyOf(service) });
      equal(reply.json.language, name);
    }
  }),
  seed('code is a string', async (s) => {
    for (const code of [7, null, true, [], {}]) await rejected(s, { language: 'py', code }, 'code');
  }),
  seed('code of more than 64 KB is a 400', async (s) => {
    await rejected(s, hello({ code: 'x'.repeat(LIMIT + 1) }), 'code');
  }),
  contract('code of 65,536 bytes is accepted, and of 65,537 bytes it is not', async (s) => {
    await taken(s, hello({ code: 'x'.repeat(LIMIT) }));
    await rejected(s, hello({ code: 'x'.repeat(LIMIT + 1) }), 'code');
  }),
  contract('sizes are bytes of UTF-8, not characters', async (s) => {
    await taken(s, hello({ code: 'é'.repeat(LIMIT / 2) }));
    await rejected(s, hello({ code: `${'é'.repeat(LIMIT / 2)}x` }), 'code');
    await taken(s, hello({ code: '😀'.repeat(LIMIT / 4) }));
    await rejected(s, hello({ code: `${'😀'.repeat(LIMIT / 4)}x` }), 'code');
  }),
  seed('stdin is optional, and at most 64 KB', async (s) => {
    await taken(s, hello({ stdin: 'x'.repeat(LIMIT) }));
    await rejected(s, hello({ stdin: 'x'.repeat(LIMIT + 1) }), 'stdin');
    await rejected(s, hello({ stdin: 5 }), 'stdin');
  }),
  contract('NUL and every other Unicode scalar are legal in code and stdin', async (s) => {
    const text = '\0\u0001\u007f\u0085\u2028\ufeff\uffff\u{10ffff}é😀';
    const id = await taken(s, hello({ code: text, stdin: text }));
    equal((await storedBytes(s, id, 'code'))?.toString(), text);
    equal((await storedBytes(s, id, 'stdin'))?.toString(), text);
  }),
  contract('a lone surrogate is a 400', async (s) => {
    for (const text of ['\\ud800', '\\udc00', 'a\\udfffb', '\\udc00\\ud800']) {
      await rejected(s, `{"language":"py","code":"${text}","stdin":"${text}"}`, 'code', 'stdin');
    }
    await taken(s, '{"language":"py","code":"\\ud83d\\ude00"}');
  }),
  contract('an unknown field is a 400 that names it', async (s) => {
    await rejected(s, hello({ webhok_url: 'https://x.example' }), 'webhok_url');
    await rejected(s, hello({ limits: { cpu: 1 } }), 'limits.cpu');
    await rejected(s, '{"language":"py","code":"","__proto__":{"a":1}}', '__proto__');
    await rejected(s, hello({ constructor: 1, toString: 2 }), 'constructor', 'toString');
  }),
  contract('a 400 names every field with a mistake', async (s) => {
    const body = {
      language: 'x',
      code: 1,
      stdin: 2,
      args: 'a',
      limits: { memory: -1 },
      a: 1,
      b: 2,
    };
    await rejected(s, body, 'language', 'code', 'stdin', 'args', 'limits.memory', 'a', 'b');
  }),
  contract('a field that is given twice is a 400 that names it', async (s) => {
    await rejected(s, '{"language":"py","code":"1","code":"2"}', 'code');
    await rejected(s, '{"language":"py","code":"1","\\u0063ode":"2"}', 'code');
    await rejected(
      s,
      '{"language":"py","code":"","limits":{"memory":1,"memory":99999999}}',
      'limits.memory',
    );
  }),
  seed('webhook_url without webhook_secret is a 400', async (s) => {
    await rejected(s, hello({ webhook_url: HOOK.webhook_url }), 'webhook_secret');
  }),
  contract('webhook_secret without webhook_url is a 400', async (s) => {
    await rejected(s, hello({ webhook_secret: 's' }), 'webhook_url');
  }),
  seed('webhook_url is an HTTPS URL', async (s) => {
    await taken(s, hello(HOOK));
    for (const webhook_url of [
      'http://a.example',
      'ftp://a.example',
      'a.example',
      '',
      'https://',
    ]) {
      await rejected(s, hello({ ...HOOK, webhook_url }), 'webhook_url');
    }
  }),
  contract('webhook_url is at most 2,048 bytes', async (s) => {
    const start = 'https://hooks.example.com/';
    const webhook_url = start + 'x'.repeat(2048 - start.length);
    await taken(s, hello({ ...HOOK, webhook_url }));
    await rejected(s, hello({ ...HOOK, webhook_url: `${webhook_url}x` }), 'webhook_url');
  }),
  contract('webhook_url has no credentials in it', async (s) => {
    for (const webhook_url of [
      'https://u:p@a.example/',
      'https://u@a.example/',
      'https://@a.example/',
    ]) {
      await rejected(s, hello({ ...HOOK, webhook_url }), 'webhook_url');
    }
  }),
  contract('a literal address of a special range in webhook_url is a 400 at once', async (s) => {
    const hosts = [
      '127.0.0.1',
      '10.0.0.1',
      '169.254.169.254',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '0x7f.1',
    ];
    for (const host of [
      ...hosts,
      '2130706433',
      '100.64.0.1',
      '224.0.0.1',
      '[64:ff9b::1]',
      '0.0.0.0',
    ]) {
      await rejected(s, hello({ ...HOOK, webhook_url: `https://${host}/` }), 'webhook_url');
    }
  }),
  seed('webhook_secret is at most 256 bytes', async (s) => {
    await taken(s, hello({ ...HOOK, webhook_secret: 'x'.repeat(256) }));
    await rejected(s, hello({ ...HOOK, webhook_secret: 'x'.repeat(257) }), 'webhook_secret');
    await rejected(s, hello({ ...HOOK, webhook_secret: 'é'.repeat(129) }), 'webhook_secret');
  }),
  contract('a webhook_secret that begins with whsec_ goes on as base64', async (s) => {
    for (const secret of [
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      'whsec',
      'WHSEC_!',
      'a whsec_!',
    ])
      await taken(s, hello({ ...HOOK, webhook_secret: secret }));
    for (const secret of ['whsec_', 'whsec_=', 'whsec_a', 'whsec_not base64', 'whsec_YWJj\n'])
      await rejected(s, hello({ ...HOOK, webhook_secret: secret }), 'webhook_secret');
  }),
  contract('webhook_secret is at least 1 byte', async (s) => {
    await rejected(s, hello({ ...HOOK, webhook_secret: '' }), 'webhook_secret');
  }),
  contract('expected_output is at most 65,536 bytes', async (s) => {
    await taken(s, hello({ expected_output: 'x'.repeat(LIMIT) }));
    await rejected(s, hello({ expected_output: 'x'.repeat(LIMIT + 1) }), 'expected_output');
  }),
  contract('compare is lenient or exact', async (s) => {
    await taken(s, hello({ expected_output: '', compare: 'exact' }));
    await taken(s, hello({ expected_output: '', compare: 'lenient' }));
    await rejected(s, hello({ expected_output: '', compare: 'fuzzy' }), 'compare');
  }),
  contract('limits are accepted within the bounds that the operator set', async (s) => {
    const limits = { cpu_time: 0.5, wall_time: 30, memory: 2 ** 30, output: 0, processes: 1 };
    const id = await taken(s, hello({ limits }));
    const { db } = await s.plain();
    const [row] = await db`select facts from runledger.events where stream = ${id} and version = 1`;
    equal(row!['facts'].limits.cpu_time_ms, 500);
    const over = {
      cpu_time: 15.1,
      wall_time: 31,
      memory: 2 ** 30 + 1,
      output: 2 ** 23,
      processes: 257,
    };
    await rejected(
      s,
      hello({ limits: over }),
      ...Object.keys(over).map((name) => `limits.${name}`),
    );
    const odd = { cpu_time: 0, wall_time: '1', memory: 1.5, output: -1, processes: [] };
    await rejected(s, hello({ limits: odd }), ...Object.keys(odd).map((name) => `limits.${name}`));
  }),
  contract('null for an optional field is as if it were absent', async (s) => {
    await taken(
      s,
      hello({ stdin: null, args: null, limits: null, webhook_url: null, tests: null }),
    );
    await taken(s, hello({ limits: { memory: null } }));
    await rejected(s, hello({ nope: null, code: null }), 'nope', 'code');
  }),
  contract('limits is an object', async (s) => {
    for (const limits of [[], 'x', 3]) await rejected(s, hello({ limits }), 'limits');
  }),
  contract('args are at most 64 items', async (s) => {
    await taken(s, hello({ args: new Array(64).fill('a') }));
    await rejected(s, hello({ args: new Array(65).fill('a') }), 'args');
  }),
  contract('args are at most 4 KiB in all', async (s) => {
    await taken(s, hello({ args: ['x'.repeat(4000), 'x'.repeat(96)] }));
    await rejected(s, hello({ args: ['x'.repeat(4000), 'x'.repeat(97)] }), 'args');
  }),
  contract('args have no NUL', async (s) => {
    await rejected(s, hello({ args: ['ok', 'a\0b'] }), 'args[1]');
  }),
  contract('stdin_base64 replaces stdin', async (s) => {
    const id = await taken(s, hello({ stdin_base64: 'AP/+Cg==' }));
    equal((await storedBytes(s, id, 'stdin'))?.toString('hex'), '00fffe0a');
    await rejected(s, hello({ stdin: '', stdin_base64: '' }), 'stdin_base64');
    for (const stdin_base64 of ['AP/', 'A===', '*', 'AP_-', 'AP/+Cg', ' AA==']) {
      await rejected(s, hello({ stdin_base64 }), 'stdin_base64');
    }
    await taken(s, hello({ stdin_base64: Buffer.alloc(LIMIT).toString('base64') }));
    await rejected(
      s,
      hello({ stdin_base64: Buffer.alloc(LIMIT + 1).toString('base64') }),
      'stdin_base64',
    );
  }),
  contract('a body that is not JSON is a 400', async (s) => {
    for (const body of [
      '',
      '{',
      'hello',
      '{"language":}',
      "{'language':'py'}",
      '\ufeff{}',
      '[1,]',
    ]) {
      await rejected(s, body, '');
    }
    for (const body of ['[]', '"x"', '7', 'null', 'true']) await rejected(s, body, '');
  }),
  contract('a body that is not UTF-8 is a 400', async (s) => {
    const service = await s.plain();
    const body = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    rejectedFor(await service.submit(await keyOf(service), body), '');
  }),
  contract('a body that nests too deep is a 400', async (s) => {
    const reply = await send(
      s,
      `{"language":"py","code":"","x":${'['.repeat(5000)}${']'.repeat(5000)}}`,
    );
    equal(reply.status, 400);
    match(reply.text, /nests deeper/);
  }),
  contract('every legal body fits, however it is escaped', async (s) => {
    const nuls = '\\u0000'.repeat(LIMIT);
    await taken(
      s,
      `{"language":"py","code":"${nuls}","stdin":"${nuls}","expected_output":"${nuls}"}`,
    );
  }),
  contract('a language that this deployment excludes is a 400', async (s) => {
    const service = await s.narrow();
    const reply = await service.submit(await keyOf(service), { language: 'cpp', code: '' });
    rejectedFor(reply, 'language');
    match(reply.text, /python/);
  }),
  contract('a field that this deployment forbids is a 400 that states it', async (s) => {
    const service = await s.narrow();
    const body = hello({ args: ['a'], ...HOOK });
    const reply = await service.submit(await keyOf(service), body);
    rejectedFor(reply, 'args', 'webhook_url', 'webhook_secret');
    match(reply.text, /not allowed by this deployment/);
  }),
  contract(
    'a submission in a language that no worker can run now is accepted, and waits',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const { json } = await service.call({ path: '/api/languages', key });
      ok(!json.includes('java'));
      await taken(s, { language: 'java', code: 'class A {}' });
    },
  ),
];
