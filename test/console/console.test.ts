/** The console over HTTP: who gets in, what it shows and changes, and that the log has who did it. */
import { randomBytes, randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { assets } from '../../src/http/console/assets.ts';
import { type Console, createConsole } from '../../src/store/console.ts';
import { createReadNow } from '../../src/store/console_now.ts';
import { revokeOperator } from '../../src/store/operators.ts';
import type { Reply } from '../http/support/call.ts';
import { type Service, startService } from '../http/support/service.ts';
import { wellFormed } from '../http/support/well_formed.ts';
import { NO_FILTER } from '../store/no_filter.ts';
import { eventually } from '../support/eventually.ts';
import { operator, SAME, send, signIn } from './visitor.ts';

const ODD_NAME = `<img src="x" onerror='alert(1)'>`;
/** What ends an element, what no text may have, what turns text around, and what is no UTF-8. */
const ODD = Buffer.concat([
  Buffer.from('</pre><script>alert(1)</script>&amp;\u0000\u001b[31m\u202e"\'\r\nnext\tline'),
  Buffer.from([0xff, 0xfe]),
]);

/** An element or an attribute that no page has, a control character, or one that turns text around. */
const HOSTILE = /<img|<script>| style=|[^\P{Cc}\n\t]|\u202e/u;

/** Facts of a test set. */
const TEST_SET = JSON.stringify({
  ...{ tests: 1, groups: 0, files: { count: 1, size_bytes: 1 } },
  bytes: { manifest: { size: 1, sha256: '0'.repeat(64) } },
});

/** Commands of this operator, the newest first. */
const commandsOf = (service: Service, name: string) =>
  service.db<{ type: string; facts: Record<string, unknown>; submission_id: string | null }[]>`
    select type, facts, submission_id from runledger.audit_commands
    where actor = ${`operator console:${name}`} order by at desc`;

const signedOut = (t: Test, reply: Reply, what: string) => {
  t.equal(reply.status, 303, what);
  t.match(reply.headers.location, /^\/console\/sign-in/, what);
};

t.test('the console', async (t) => {
  const service = await startService(t, { webs: 1 });

  await t.test('without an operator there is none', async (t) => {
    for (const asked of [
      { path: '/console' },
      { path: '/console/submissions' },
      { path: '/console/assets/now.js' },
      { path: '/console/sign-in', method: 'POST', body: 'key=x' },
    ]) {
      const reply = await service.call(asked);
      t.equal(reply.status, 404, asked.path);
      t.match(reply.text, /^There is no console here: .*`\.\/runledger operator create NAME`\.\n$/);
    }
  });

  await t.test('an operator’s key signs in, and no other', async (t) => {
    const key = await operator(service, 'ada');
    for (const path of ['', '/submissions', '/live', '/log'])
      signedOut(t, await service.call({ path: `/console${path}` }), path);
    const changed = key.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    for (const wrong of [await service.key(), newSecret('rl', 'operator'), changed, ''])
      t.equal((await send(service, '/sign-in', { key: wrong }, SAME)).status, 401);
    t.equal((await service.call({ path: '/api/health', key })).status, 401, 'it is no API key');
    const given = { key, to: '/console/tiers?tier=beta' };
    const reply = await send(service, '/sign-in', given, SAME);
    t.match(reply, { status: 303, headers: { location: given.to } });
    t.match(
      reply.headers['set-cookie'],
      /^runledger-console=[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    for (const [to, leads] of [
      ['/console/log', '/console/log'],
      ['//evil.example', '/console'],
    ] as const) {
      const path = `/console/sign-in?to=${encodeURIComponent(to)}`;
      const { text } = await service.call({ path });
      t.ok(text.includes(`<a href="${leads}">Already signed in? Go on</a>`), to);
    }
    const elsewhere = await send(service, '/sign-in', { key, to: '//evil.example' }, SAME);
    t.equal(elsewhere.headers.location, '/console', 'it leads nowhere else');
    t.match(await commandsOf(service, 'ada'), [
      { type: 'operator.signed_in', facts: { request_id: elsewhere.headers['x-request-id'] } },
      { type: 'operator.signed_in', facts: { request_id: reply.headers['x-request-id'] } },
    ]);
    const [stored] = await service.db<{ n: number }[]>`
      select count(*)::integer as n from runledger.operators where digest = sha256(${secretDigest(key)})`;
    t.equal(stored!.n, 1, 'a digest of its digest is stored');
  });

  const visitor = await signIn(service, 'grace');

  await t.test('a page allows nothing but what this service serves', async (t) => {
    const reply = await visitor.get('');
    const policy = String(reply.headers['content-security-policy']);
    t.same(policy.split('; '), [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self'",
      "connect-src 'self'",
      "form-action 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]);
    const named = reply.text.matchAll(/(?:src|href)="\/console(\/assets\/[^"]*)"/g);
    const paths = assets.map((asset) => asset.path);
    // The script imports the others.
    t.same(
      Array.from(named, ([, path]) => path),
      ['uplot.css', 'console.css', 'now.js'].map((name) => `/assets/${name}`),
    );
    t.equal(paths.length, 5);
    for (const path of paths.map((each) => `/console${each}`)) {
      const asset = await service.call({ path });
      t.equal(asset.status, 200, path);
      const known = { 'if-none-match': `"other", W/${String(asset.headers.etag)}` };
      t.equal((await service.call({ path, headers: known })).status, 304, path);
    }
  });

  await t.test('a form from elsewhere, or without its token, changes nothing', async (t) => {
    const id = await newKey(service);
    const { cookie } = visitor;
    const path = `/keys/${id}/revoke`;
    const page = await visitor.get('/tiers');
    const token = / name="token" value="([^"]*)"/.exec(page.text)![1]!;
    for (const [fields, headers] of [
      [{ token }, { cookie, 'sec-fetch-site': 'cross-site' }],
      [{ token }, { cookie, origin: 'https://evil.example' }],
      [{ token }, { cookie }],
      [{ token: 'x' }, { cookie, ...SAME }],
      [{}, { cookie, ...SAME }],
    ] as const)
      t.equal((await send(service, path, fields, headers)).status, 403, JSON.stringify(headers));
    await leadsBack(t, service, await send(service, path, { token }, SAME));
    t.equal((await visitor.get(path)).status, 405, 'by a link');
    t.equal(await isRevoked(service, id), false);
  });

  await t.test('each command is an event with its operator and its request', async (t) => {
    const id = await newKey(service);
    const revoked = await visitor.post(`/keys/${id}/revoke`);
    t.match(revoked, { status: 303, headers: { location: /^\/console\/accounts\/f/ } });
    t.equal(await isRevoked(service, id), true);
    const limits = { name: 'gold', per_minute: '600', concurrent: '50' };
    const set = await visitor.post('/tiers', limits);
    t.equal(set.status, 303);
    t.match((await visitor.get('/tiers')).text, /gold<\/a><\/td><td class="number">600</);
    t.match(await commandsOf(service, 'grace'), [
      { type: 'tier.set', facts: { request_id: set.headers['x-request-id'] } },
      { type: 'key.revoked', facts: { request_id: revoked.headers['x-request-id'] } },
      { type: 'operator.signed_in' },
    ]);
    const log = (await visitor.get('/log')).text;
    t.match(log, /operator console:grace<\/td><td>tier\.set/);
    t.match(log, /operator ada@test<\/td><td>operator\.created/);
    for (const wrong of [{ name: 'G' }, { per_minute: '-1' }, { concurrent: '' }])
      t.equal((await visitor.post('/tiers', { ...limits, ...wrong })).status, 400);
    t.equal(
      (await visitor.post(`/keys/${'f'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}/revoke`)).status,
      404,
    );
  });

  await t.test('a key is made and rotated, and its secret is shown once', async (t) => {
    const shown = ({ text }: Reply) => /<pre [^>]*>(rl_live_\w{36})<\/pre>/.exec(text)?.[1] ?? '';
    // Not whether it is 200: the key may be over its rate.
    const accepted = async (key: string) =>
      (await service.call({ path: '/api/languages', key })).status !== 401;
    const account = 'made in the console';
    const wanted = { account: ` ${account} `, tier: 'beta' };
    const making = { ...wanted, ...(await visitor.hidden('/accounts', '/keys')) };
    const made = await visitor.post('/keys', making);
    t.match(made, { status: 200, headers: { 'cache-control': 'no-store' } });
    const first = shown(made);
    t.equal(await accepted(first), true);
    const [{ key_id, account_id } = { key_id: '', account_id: '' }] = await service.db<
      { key_id: string; account_id: string }[]
    >`
      select k.id as key_id, a.id as account_id from runledger.keys k join runledger.accounts a on a.id = k.account_id
      where a.name = ${account} and k.tier = 'beta'`;
    const pageText = async () => (await visitor.get(`/accounts/${account_id}`)).text;
    const page = await pageText();
    t.match(page, new RegExp(`action="/console/keys/${key_id}/rotate"`));
    t.notMatch(page, first);
    t.notMatch(page, 'works until');
    const rotate = `/keys/${key_id}/rotate`;
    const rotating = async (grace: string) => ({
      ...{ grace, ...(await visitor.hidden(`/accounts/${account_id}`, rotate)) },
    });
    const with_grace = await rotating('hour');
    const kept = await visitor.post(rotate, with_grace);
    const second = shown(kept);
    t.same([await accepted(first), await accepted(second)], [true, true]);
    const [{ ends } = { ends: new Date(0) }] = await service.db<{ ends: Date }[]>`
      select expires_at as ends from runledger.key_secrets where key_id = ${key_id} and expires_at is not null`;
    t.match(await pageText(), `works until <time datetime="${ends.toISOString()}">`);
    for (const [path, form, why] of [
      ['/keys', making, `this form made key ${key_id} of account ${account} at 20`],
      [rotate, with_grace, `key ${key_id} has had a new secret since 20`],
      [rotate, with_grace, `works until ${ends.toISOString().slice(0, 19).replace('T', ' ')} UTC`],
    ] as const) {
      const again = await visitor.post(path, form);
      t.match(again, { status: 409, text: /<h1>Nothing was changed<\/h1>/ }, 'sent again');
      t.match(again.text, why);
      t.equal(shown(again), '');
    }
    t.same([await accepted(first), await accepted(second)], [true, true], 'they are as before');
    const at_once = await rotating('none');
    const rotated = await visitor.post(rotate, at_once);
    t.match(await visitor.post(rotate, at_once), { status: 409, text: /rotate the key once more/ });
    t.notMatch(await pageText(), 'works until');
    t.equal(await accepted(shown(rotated)), true);
    t.same([await accepted(first), await accepted(second)], [false, false]);
    const event = (type: string, reply: Reply) => ({
      ...{ type, facts: { request_id: reply.headers['x-request-id'] } },
    });
    const [newest, before, created, with_account] = await commandsOf(service, 'grace');
    t.match([newest, before], [event('key.rotated', rotated), event('key.rotated', kept)]);
    // One transaction has one time.
    for (const type of ['key.created', 'account.created'])
      t.ok([created, with_account].some((each) => each?.type === type));
    t.match(
      [created, with_account],
      [event('', made), event('', made)].map(({ facts }) => ({ facts })),
    );
    const nobody = `${'f'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`;
    const unused = await visitor.hidden('/accounts', '/keys');
    for (const [path, fields, status] of [
      ['/keys', { ...unused, account: '', tier: 'beta' }, 400],
      ['/keys', { ...unused, account, tier: 'none' }, 404],
      ['/keys', { ...unused, account }, 404],
      ['/keys', wanted, 400],
      ['/keys', { ...wanted, id: randomUUID().replace(/^./, '0') }, 400],
      [rotate, { version: '3', grace: 'toString' }, 400],
      [rotate, { version: '3' }, 400],
      [rotate, { grace: 'day' }, 400],
      [`/keys/${nobody}/rotate`, { version: '3', grace: 'day' }, 404],
      ['/keys/x/rotate', { grace: 'day' }, 404],
    ] as const)
      t.equal((await visitor.post(path, fields)).status, status, `${path} ${Object.keys(fields)}`);
    t.equal((await commandsOf(service, 'grace')).length, 7, 'and nothing more happened');
  });

  await t.test(
    'the form on the page of an account makes a key for it, whatever its name',
    async (t) => {
      const name = 'Acme\u200e\nof <b>';
      await service.key({ account: name });
      const [{ account_id } = { account_id: '' }] = await service.db<{ account_id: string }[]>`
      select id as account_id from runledger.accounts where name = ${name}`;
      const form = await visitor.hidden(`/accounts/${account_id}`, '/keys');
      const made = await visitor.post('/keys', { tier: 'beta', ...form });
      t.equal(made.status, 200);
      const keys = await service.db`select from runledger.keys where account_id = ${account_id}`;
      t.equal(keys.length, 2);
      const nobody = `${'f'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`;
      for (const other of [nobody, 'x', ''])
        t.equal(
          (await visitor.post('/keys', { tier: 'beta', ...form, account_id: other })).status,
          400,
        );
    },
  );

  await t.test('a search field keeps the signs of what was searched for', async (t) => {
    const name = 'a\u200e\u202e"<';
    const { text } = await visitor.get(`/submissions?${new URLSearchParams({ account: name })}`);
    t.match(text, 'name="account" value="a&#8206;&#8238;&quot;&lt;"');
    t.match(text, 'look for the account');
  });

  await t.test('the log says what each command was about', async (t) => {
    const account = 'in the log';
    const key = await newKey(service, account);
    await visitor.post(`/keys/${key}/revoke`);
    const [{ account_id } = { account_id: '' }] = await service.db<{ account_id: string }[]>`
      select account_id from runledger.keys where id = ${key}`;
    const link = (path: string, name: string) => `<a href="/console/${path}">${name}</a>`;
    const of_account = `account ${link(`accounts/${account_id}`, account)}`;
    const [{ test_set } = { test_set: '' }] = await service.db<{ test_set: string }[]>`
      select runledger.append_events(x.id, 0, '{test_set.created}', array[${TEST_SET}::text::jsonb || jsonb_build_object(
        'account_id', ${account_id}::text, 'key_id', ${key}::text)]), runledger.append_events(x.id, 1, '{test_set.deleted}',
        array['{"operator": "ada@test"}'::jsonb]), x.id as test_set from runledger.permanent_id() x(id)`;
    const { text } = await visitor.get('/log');
    const about = (type: string) =>
      [
        ...text.matchAll(
          /<\/time><\/td><td>[^<]*<\/td><td>([^<]*)<\/td><td>(.*?)<\/td><td class="wide">/g,
        ),
      ]
        .filter((row) => row[1] === type)
        .map((row) => row[2]!);
    const id = (value: string) => `<span class="id">${value}</span>`;
    t.equal(about('key.revoked')[0], `key ${id(key)}, ${of_account}`);
    t.equal(about('account.created')[0], of_account);
    t.equal(about('test_set.deleted')[0], `test set ${id(test_set)}, ${of_account}`);
    t.ok(about('operator.created').includes('operator grace'));
    t.ok(about('tier.set').includes(`tier ${link('tiers?tier=gold', 'gold')}`));
    wellFormed(t, text);
  });

  await t.test('every command is on one page, however many there are', async (t) => {
    const looks = 3000;
    const [{ operator_id } = { operator_id: '' }] = await service.db<{ operator_id: string }[]>`
      select id as operator_id from runledger.operators where name = 'grace'`;
    const { id } = (await service.submit(await service.key())).json;
    for (let n = 0; n < 130; n += 1) await service.db`select runledger.set_tier('many', ${n}, 1)`;
    await service.db`
      select runledger.append_events(${operator_id}, l.version, array_fill('operator.viewed'::text, array[${looks}::integer]),
        array_fill(jsonb_build_object('submission_id', ${id}::text, 'submission_version', 1, 'operator', 'console:grace', 'request_id', 'r'),
          array[${looks}::integer]))
      from (select max(version) as version from runledger.events where stream = ${operator_id}) l`;
    t.match(
      (await visitor.get('/log')).text,
      /<td>tier\.set<\/td>.*\bmany\b/,
      'looks hide nothing',
    );
    t.notMatch((await visitor.get('/log')).text, 'operator.viewed');
    const removed = (type: string, facts: object, times = 1) => service.db`
      select runledger.append_retention(${type}, ${JSON.stringify(facts)}::text::jsonb) from generate_series(1, ${times})`;
    const gone = { payloads: 1, size_bytes: 1 };
    const forgotten = Array.from({ length: 300 }, () => randomUUID());
    await removed('payloads.forgotten', { submissions: forgotten, ...gone, operator: 'ada@test' });
    const purge = { ended_before: '2026-01-01T00:00:00Z', submissions: 1, ...gone };
    await removed('payloads.purged', { ...purge, operator: 'ada@test' });
    await removed('payloads.purged', { ...purge, scheduled: true }, 120);
    const first = (await visitor.get('/log')).text;
    t.match(first, /ada@test<\/td><td>payloads\.purged/);
    t.match(first, /ada@test<\/td><td>payloads\.forgotten.*\bsubmissions 300\b/, 'their number');
    t.notMatch(first, forgotten[0]!);
    t.notMatch(first, /service<\/td><td>payloads\.purged/, 'nor does the schedule hide any');
    const all = async (start: string) => {
      const found: string[] = [];
      let pages = 0;
      let path: string | undefined = start;
      for (; path !== undefined && pages < 100; pages += 1) {
        const { text, status }: Reply = await visitor.get(path);
        t.equal(status, 200, path);
        const rows = text.matchAll(
          /<tr><td><time[^>]*>([^<]*)<\/time><\/td><td>[^<]*<\/td><td>([a-z_]+\.[a-z_]+)<\/td>/g,
        );
        found.push(...Array.from(rows, ([, at, type]) => `${at} ${type}`));
        path = /rel="next" href="\/console([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
      }
      return found;
    };
    const shown = /<a href="\/console([^"]*)">With the submissions/.exec(
      (await visitor.get('/log')).text,
    );
    const logged = await service.db<{ row: string; is_command: boolean }[]>`
      select to_char(c.at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' ' || c.type as row,
        c.type <> 'operator.viewed' and not c.facts ? 'scheduled' as is_command
      from runledger.audit_commands c join runledger.events e on e.stream = c.about and e.version = c.version
      order by e.at desc, e.seq desc`;
    const rows = (each: readonly { row: string }[]) => each.map(({ row }) => row);
    t.ok(logged.length > looks + 250);
    t.same(await all('/log'), rows(logged.filter(({ is_command }) => is_command)));
    t.same(await all(shown![1]!), rows(logged));
    for (const before of ['x', '1-2-3', '9999999999999999-999999999999999999', ODD_NAME]) {
      const query = new URLSearchParams({ before });
      t.equal((await visitor.get(`/log/commands?${query}`)).status, 200, before);
    }
  });

  await t.test('an old page of commands reads no newer ones', async (t) => {
    const session = secretDigest(visitor.cookie.split('=')[1]!);
    const db = connect(service.database.url, { name: 'test', max: 1 });
    t.teardown(() => db.end());
    const read = () => tuplesRead(db, 'events%');
    const page = (before: { us: string; seq: string } | null) => db`
      select * from runledger.console_commands(${session}, true, ${before?.us ?? null}, ${before?.seq ?? null}, 10)`;
    const [old] = await db<{ us: string; seq: string }[]>`
      select (extract(epoch from at) * 1000000)::bigint as us, seq from runledger.events
      where stream >= 'f0000000-0000-0000-0000-000000000000' order by at, seq offset 30 limit 1`;
    await page(old!);
    const before = await read();
    t.equal((await page(old!))[0]!['commands'].length, 10);
    const tuples = (await read()) - before;
    t.ok(tuples < 500, `${tuples} of an index`);
  });

  await t.test('accounts are searched by parts of all of them, until each was found', async (t) => {
    const accounts = 5100;
    await service.db`
      insert into runledger.accounts (id, name, created_at)
      select runledger.permanent_id(), 'team ' || lpad(n::text, 4, '0') || case when n % 1000 = 7 then ' Wanted' else '' end, now()
      from generate_series(1, ${accounts}) n`;
    const found: string[] = [];
    const partial: boolean[] = [];
    let path: string | undefined = '/accounts?name=wanted';
    while (path !== undefined && partial.length < 10) {
      const { text }: Reply = await visitor.get(path);
      found.push(...Array.from(text.matchAll(/>(team \d+) Wanted<\/a>/g), ([, name]) => name!));
      path = /rel="next" href="\/console([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
      partial.push(text.includes('a bounded number of accounts'));
    }
    t.same(found, ['team 0007', 'team 1007', 'team 2007', 'team 3007', 'team 4007', 'team 5007']);
    t.same(partial, [true, false]);
    const session = secretDigest(visitor.cookie.split('=')[1]!);
    const db = connect(service.database.url, { name: 'test', max: 1 });
    t.teardown(() => db.end());
    const read = () => tuplesRead(db, 'accounts');
    const page = () =>
      db`select * from runledger.console_accounts(${session}, 'nowhere', '', 10, 100)`;
    await page();
    const before = await read();
    const [row] = await page();
    t.strictSame(row!['accounts'], []);
    t.type(row!['next_name'], 'string');
    const tuples = (await read()) - before;
    t.ok(tuples < 200, `${tuples} of the index, and of the table`);
    await service.db`delete from runledger.accounts where name like 'team %'`;
  });

  await t.test('many test sets of users do not put the commands out of sight', async (t) => {
    const commands = async () => (await visitor.get('/log/commands')).text.split('</h1>')[1];
    const before = await commands();
    t.match(before, 'tier.set');
    await service.db`
      select runledger.append_events(runledger.permanent_id(), 0, '{test_set.created}', array[jsonb_build_object(
        'account_id', k.account_id, 'key_id', k.id) || ${TEST_SET}::text::jsonb])
      from generate_series(1, 1100), (select * from runledger.keys limit 1) k`;
    t.equal(await commands(), before);
  });

  await t.test(
    'each key of an account is on one page, also where all are of one moment',
    async (t) => {
      await service.db`
      select runledger.create_key('many keys', 'beta', 'rl', sha256(n::text::bytea)) from generate_series(1, 120) n`;
      const keys = await service.db<{ id: string; account_id: string }[]>`
      update runledger.keys set created_at = '2026-01-01T00:00:00.000500Z'
      where account_id = (select id from runledger.accounts where name = 'many keys') returning id, account_id`;
      const found: string[] = [];
      let path: string | undefined = `/accounts/${keys[0]!.account_id}`;
      while (path !== undefined && found.length < 200) {
        const { text }: Reply = await visitor.get(path);
        found.push(...Array.from(text.matchAll(/keys\/([^/]+)\/rotate/g), ([, id]) => id!));
        path = /rel="next" href="\/console([^"]+)"/.exec(text)?.[1];
      }
      t.same(
        found,
        keys
          .map(({ id }) => id)
          .sort()
          .reverse(),
      );
    },
  );

  await t.test('what users send is text on every page', async (t) => {
    const key = await service.key({ account: ODD_NAME });
    const code = 'print("</pre><script>")\n# \u202e';
    const body = { language: 'python', code, stdin_base64: ODD.toString('base64') };
    const { id } = (await service.submit(key, body)).json;
    await service.worker.finish(id, { stdout: ODD, stderr: ODD, verdict: 'RE', exit_code: 1 });
    const [{ account_id } = { account_id: '' }] = await service.db<{ account_id: string }[]>`
      select account_id from runledger.submissions where id = ${id}`;
    for (const path of [
      ...['', '/submissions', `/submissions/${id}`, '/deliveries', '/accounts', '/tiers', '/log'],
      `/accounts/${account_id}`,
      `/submissions?${new URLSearchParams({ account: ODD_NAME, id: ODD_NAME })}`,
      `/accounts?${new URLSearchParams({ name: ODD_NAME })}`,
      `/deliveries?before=${encodeURIComponent(ODD_NAME)}`,
    ]) {
      const { text } = await visitor.get(path);
      wellFormed(t, text);
      t.notMatch(text, HOSTILE, path);
    }
    const { text } = await visitor.get(`/submissions/${id}`);
    t.match(text, 'print(&quot;&lt;/pre&gt;&lt;script&gt;&quot;)\n# \\u202e');
    t.match(text, '&lt;/script&gt;&amp;amp;\\u0000\\u001b[31m\\u202e');
    t.match(text, /<svg class="timeline" role="img" aria-label="It was waiting .*, then running /);
    t.match(text, 'its end is not sealed yet');
    t.match((await commandsOf(service, 'grace'))[0], {
      ...{ type: 'operator.viewed', submission_id: id },
    });
    const seen = (await commandsOf(service, 'grace')).length;
    await visitor.get(`/submissions/${id}`);
    t.equal((await commandsOf(service, 'grace')).length, seen, 'a second look is not recorded');
    const later = (await service.submit(await service.key())).json.id;
    const looks = async () => {
      await visitor.get(`/submissions/${later}`);
      const all = await commandsOf(service, 'grace');
      return all.filter(({ submission_id }) => submission_id === later).length;
    };
    t.same([await looks(), await looks()], [1, 1]);
    await service.worker.finish(later);
    t.same([await looks(), await looks()], [2, 2], 'it had no output before');
  });

  await t.test('the bytes of a large output come whole, and are never shown', async (t) => {
    const { id } = (await service.submit(await service.key())).json;
    const stdout = randomBytes(1_300_000);
    await service.worker.finish(id, { stdout });
    t.match((await visitor.get(`/submissions/${id}`)).text, 'These are the first 64 KiB.');
    const path = `${service.webs[0]!.origin}/console/submissions/${id}/bytes/stdout`;
    const reply = await fetch(path, { headers: { cookie: visitor.cookie } });
    t.equal(reply.headers.get('content-type'), 'application/octet-stream');
    t.equal(reply.headers.get('content-disposition'), `attachment; filename="${id}.stdout"`);
    t.ok(stdout.equals(Buffer.from(await reply.arrayBuffer())));
    for (const kind of ['stdin2', 'webhook_url', 'stderr%2f'])
      t.equal((await visitor.get(`/submissions/${id}/bytes/${kind}`)).status, 404, kind);
  });

  await t.test('of a payload that is not shown, no part is', async (t) => {
    const { id } = (await service.submit(await service.key())).json;
    await service.worker.finish(id);
    await service.db`
      insert into runledger.payloads (stream, kind, salt, bytes)
      values (${id}, 'files', ${randomBytes(16)}, ${randomBytes(70_000)})`;
    const { text } = await visitor.get(`/submissions/${id}`);
    const section = /<section aria-label="files">.*?<\/section>/s.exec(text)?.[0];
    t.match(section, /68\.4 KiB, <a href="[^"]*\/bytes\/files"/);
    t.notMatch(section, /<pre|These are the first/);
  });

  await t.test('what is set aside is counted with what its key has waiting', async (t) => {
    const key = await service.key({ account: 'set aside' });
    for (let n = 0; n < 3; n++) await service.submit(key);
    const [account] = await service.db<{ id: string }[]>`
      select id from runledger.accounts where name = 'set aside'`;
    const waiting = async () => {
      const { text } = await visitor.get(`/accounts/${account!.id}`);
      return [...text.matchAll(/<td class="(?:wide )?number">(\d+)/g)].map(([, n]) => Number(n));
    };
    t.same(await waiting(), [3, 0]);
    // As set_aside() leaves one of a language that no worker runs.
    await service.db`
      with one as (
        insert into runledger.gated (key_id, submission_id, aside)
        select s.key_id, s.id, 'java' from runledger.submissions s where s.account_id = ${account!.id} limit 1 returning key_id
      ) update runledger.key_usage u set dispatched = u.dispatched - 1 from one where u.key_id = one.key_id`;
    t.same(await waiting(), [2, 1]);
  });

  await t.test('a delivery is requested again', async (t) => {
    const webhook = { webhook_url: 'https://receiver.test/hook?token=x', webhook_secret: 'secret' };
    const body = { language: 'python', code: '1', ...webhook };
    const { id } = (await service.submit(await service.key(), body)).json;
    await service.worker.finish(id);
    t.match((await visitor.get('/deliveries?status=waiting')).text, id);
    const page = (await visitor.get(`/submissions/${id}`)).text;
    t.match(page, /receiver\.test/);
    t.notMatch(page, 'token=x', 'an address can have a secret');
    const replayed = await visitor.post(`/submissions/${id}/replay`);
    t.match(replayed, { status: 303, headers: { location: `/console/submissions/${id}` } });
    t.match((await commandsOf(service, 'grace'))[0], {
      type: 'delivery.requested',
      submission_id: id,
      facts: { replay: true, request_id: replayed.headers['x-request-id'] },
    });
    // An attempt that has begun writes behind this lock, and then finds that the delivery has ended.
    await service.db.begin(async (tx) => {
      await tx`select from runledger.submissions where id = ${id} for update`;
      await tx`update runledger.deliveries set status = 'delivered' where id = ${id}`;
    });
    t.match(await visitor.post(`/submissions/${id}/replay`), {
      status: 409,
      text: /give its secret/,
    });
    await service.db`update runledger.deliveries set status = 'waiting' where id = ${id}`;
    const none = (await service.submit(await service.key())).json.id;
    t.equal((await visitor.post(`/submissions/${none}/replay`)).status, 404);
  });

  await t.test('a search finds by id, account, verdict, language and time, by pages', async (t) => {
    const names = ['search a', 'search b'];
    const keys = await Promise.all(names.map((account) => service.key({ account })));
    const made: string[] = [];
    for (let n = 0; n < 60; n++) {
      const language = n % 3 === 0 ? 'cpp' : 'python';
      made.push((await service.submit(keys[n % 2]!, { language, code: String(n) })).json.id);
    }
    await service.worker.finish(made[4]!, { verdict: 'TLE' });
    const found = async (query: Record<string, string>) => {
      const ids: string[] = [];
      let path: string | undefined = `/submissions?${new URLSearchParams(query)}`;
      for (; path !== undefined; ) {
        const { text, status } = await visitor.get(path);
        t.equal(status, 200);
        ids.push(
          ...[...text.matchAll(/class="id" href="[^"]*\/([0-9a-f-]{36})"/g)].map(([, id]) => id!),
        );
        path = /rel="next" href="\/console([^"]*)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
      }
      return ids;
    };
    const newest = made.toReversed();
    t.same((await found({})).slice(0, 60), newest, 'all accounts, the newest first');
    t.same(
      await found({ account: 'search b', from: '2026-01-01T00:00' }),
      newest.filter((_, n) => n % 2 === 0),
    );
    t.same(await found({ account: 'search b', to: '2026-01-01T00:00' }), []);
    t.same(await found({ account: 'nobody' }), []);
    const from = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
    t.same(await found({ verdict: 'TLE', from, id: '', status: '' }), [made[4]]);
    t.same(
      (await found({ language: 'cpp' })).slice(0, 20),
      newest.filter((_, n) => (59 - n) % 3 === 0),
    );
    t.same(await found({ to: from }), []);
    const reply = await visitor.get(`/submissions?id=${made[3]!.toUpperCase()}`);
    t.match(reply, { status: 303, headers: { location: `/console/submissions/${made[3]}` } });
    t.equal((await visitor.get('/submissions?verdict=XX&from=soon')).status, 400);
    t.equal((await visitor.get(`/submissions/${made[3]!.replace(/.{4}$/, '0000')}`)).status, 404);
  });

  await t.test('the live state has the queue, the workers, and the last minutes', async (t) => {
    let json: Reply['json'];
    // An answer shows what was read at most two seconds before.
    await eventually(async () => {
      ({ json } = await visitor.get('/live'));
      return json.hour.verdicts['TLE'] !== undefined;
    });
    t.match(json.queue, { waiting: Number, oldest_wait_s: Number, capacity: 10_000 });
    t.match(json.workers, [{ slots: Number, toolchains: { python: String } }]);
    t.ok(json.languages.some((each: { language: string }) => each.language === 'cpp'));
    t.equal(json.hour.minutes.length, 60);
    t.equal(json.hour.verdicts['TLE'].length, 60);
    const minutes = json.hour.minutes.slice(-10).map((minute: number) => new Date(minute * 1000));
    const recent = (await createReadNow(service.db)(minutes)).minutes;
    t.ok(
      recent.some(({ verdicts }) => verdicts['TLE'] === 1),
      JSON.stringify(recent),
    );
    t.ok(json.hour.latency_s[0].some((each: number | null) => each !== null && each > 0));
  });

  await t.test('a session ends', async (t) => {
    const one = await signIn(service, 'barbara');
    t.equal((await one.post('/sign-out')).status, 303);
    signedOut(t, await one.get('/tiers'), 'signed out');
    t.equal((await commandsOf(service, 'barbara'))[0]?.type, 'operator.signed_out');
    const other = await signIn(service, 'edsger');
    t.equal((await other.get('/tiers')).status, 200);
    await service.db`update runledger.operator_sessions set expires_at = now() where digest = ${secretDigest(other.cookie.split('=')[1]!)}`;
    signedOut(t, await other.get('/tiers'), 'expired, though the process still knows it');
    const out = await send(service, '/sign-out', {}, { ...SAME, cookie: other.cookie });
    t.match(out.headers, { location: '/console/sign-in' }, 'who signs out wants nothing else');
    const fourth = await signIn(service, 'alan');
    const limits = { name: 'late', per_minute: '1', concurrent: '1' };
    const form = { ...limits, ...(await fourth.hidden('/tiers', '/tiers')) };
    const { cookie } = fourth;
    await service.db`update runledger.operator_sessions set expires_at = now() where digest = ${secretDigest(cookie.split('=')[1]!)}`;
    await leadsBack(t, service, await send(service, '/tiers', form, { ...SAME, cookie }));
    const late = await service.db`select from runledger.tiers where name = 'late'`;
    t.equal(late.length, 0);
    const third = await signIn(service, 'john');
    await revokeOperator(service.db, 'john', 'ada@test');
    signedOut(t, await third.get('/tiers'), 'revoked');
    await t.rejects(revokeOperator(service.db, 'john'), { code: 'RL404' });
    const key = await operator(service, 'john');
    t.equal(
      (await send(service, '/sign-in', { key }, SAME)).status,
      303,
      'a new key, the same name',
    );
    await t.rejects(operator(service, 'john'), { code: 'RL400' });
  });

  await t.test('the login of web sees nothing without a session', async (t) => {
    const web = connect(service.database.urls.web, { name: 'test', max: 1 });
    t.teardown(() => web.end());
    const store = createConsole(web);
    const asking = { session: randomBytes(32), request_id: 'r' };
    const id = (await service.db`select id from runledger.submissions limit 1`)[0]!['id'] as string;
    const [key] = await service.db<{ id: string }[]>`
      select id from runledger.keys where revoked_at is null limit 1`;
    const new_key = { id: key!.id.replace(/.{12}$/, '0'.repeat(12)), account: 'new', tier: 'beta' };
    const secret = { prefix: 'rl', secret_digest: randomBytes(32) };
    const asks: Record<keyof Console, () => Promise<unknown>> = {
      search: () => store.search(asking, { ...NO_FILTER, limit: 1, account: null }),
      submission: () => store.submission(asking, id),
      bytes: () => store.bytes(asking, { id, kind: 'code', from: 0, at_most: 1 }),
      deliveries: () => store.deliveries(asking, { status: null, before: null }),
      accounts: () => store.accounts(asking, { part: '', after: '' }),
      account: () => store.account(asking, { id, before: null }),
      tiers: () => store.tiers(asking),
      log: () => store.log(asking),
      commands: () => store.commands(asking, { with_all: true, before: null }),
      createKey: () => store.createKey(asking, { ...new_key, ...secret }),
      rotateKey: () =>
        store.rotateKey(asking, { id: key!.id, seen_version: 9, grace_ms: 0, ...secret }),
      revokeKey: () => store.revokeKey(asking, key!.id),
      setTier: () => store.setTier(asking, { name: 'beta', per_minute: 1, concurrent: 1 }),
      replay: () => store.replay(asking, id, null),
    };
    t.same(Object.keys(asks).sort(), Object.keys(store).sort(), 'each function of the store');
    for (const [name, ask] of Object.entries(asks))
      await t.rejects(ask() as Promise<never>, { code: 'RL401' }, name);
    for (const table of ['operators', 'operator_sessions'])
      await t.rejects(web.unsafe(`select * from runledger.${table}`), { code: '42501' });
  });

  await t.test('attempts to sign in are limited', async (t) => {
    let reply: Reply;
    let attempts = 0;
    do {
      reply = await send(service, '/sign-in', { key: 'x' }, SAME);
      attempts += 1;
    } while (reply.status === 401 && attempts < 20);
    t.match(reply, { status: 429, headers: { 'retry-after': /^\d+$/ } });
    t.ok(attempts <= 11);
  });
});

/** Of the indexes of such tables, and of these tables without an index. */
async function tuplesRead(db: Db, tables: string): Promise<number> {
  await db`select pg_stat_force_next_flush()`;
  const [row] = await db<{ tuples: number }[]>`
    select pg_stat_clear_snapshot(), (select sum(idx_tup_read) from pg_stat_user_indexes where relname like ${tables})::integer
      + (select sum(seq_tup_read) from pg_stat_user_tables where relname like ${tables})::integer as tuples`;
  return row!.tuples;
}

/** A form of a session that has ended leads to the sign-in, which says so, and from there to a page that there is. */
async function leadsBack(t: Test, service: Service, reply: Reply) {
  signedOut(t, reply, 'a form');
  const asked = await service.call({ path: String(reply.headers.location) });
  t.match(asked, { status: 200, text: /role="alert">[^<]*nothing was changed/ });
  const to = / name="to" value="([^"]*)"/.exec(asked.text)![1]!;
  t.not((await service.call({ path: to })).status, 405, `${to} can be opened`);
}

async function newKey(service: Service, account?: string): Promise<string> {
  await service.key(account === undefined ? {} : { account });
  const [row] = await service.db<{ id: string }[]>`
    select id from runledger.keys order by created_at desc limit 1`;
  return row!.id;
}

async function isRevoked(service: Service, id: string): Promise<boolean> {
  const [row] = await service.db<{ revoked: boolean }[]>`
    select revoked_at is not null as revoked from runledger.keys where id = ${id}`;
  return row!.revoked;
}
