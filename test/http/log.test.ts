/** The log has one line for each request, and no secret in any encoding. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { createOperator } from '../../src/store/operators.ts';
import { SAME, sendTo } from '../console/visitor.ts';
import { until } from '../support/eventually.ts';
import { call, wire } from './support/call.ts';
import { cuttable } from './support/cuttable.ts';
import { startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

t.test('no secret, code or data of a request is in the log', async (t) => {
  const service = await startService(t, { webs: 1 });
  const way = await cuttable(t, service.database.urls.web);
  const web = await webProcess(t, service.database, {
    RUNLEDGER_LOG_LEVEL: 'trace',
    DATABASE_URL: way.url,
  });
  const secret = () => `zq${randomBytes(12).toString('hex')}`;
  const used = {
    key: await service.key(),
    unknown_key: newSecret('rl'),
    malformed_key: `rl_live_${secret()}`,
    code: secret(),
    stdin: secret(),
    stdin_base64: secret(),
    arg: secret(),
    expected: secret(),
    webhook_secret: secret(),
    webhook_url: secret(),
    stdout: secret(),
    stderr: secret(),
    in_path: secret(),
    in_query: secret(),
    in_header: secret(),
    unknown_field: secret(),
    broken_json: secret(),
    operator_key: newSecret('rl', 'operator'),
    unknown_operator_key: newSecret('rl', 'operator'),
    malformed_operator_key: secret(),
    in_form: secret(),
    // What a visit to the console gets from it.
    session: '',
    form_token: '',
    made_key: '',
  };
  const body = {
    language: 'python',
    code: `print("${used.code}")`,
    stdin: used.stdin,
    args: [used.arg],
    expected_output: used.expected,
    webhook_url: `https://hooks.example.com/${used.webhook_url}`,
    webhook_secret: used.webhook_secret,
  };
  const base64 = Buffer.from(used.stdin_base64).toString('base64');
  const { key } = used;
  const ask = (asked: Parameters<typeof call>[1]) => call(web.origin, { key, ...asked });

  /** Signs in, sends forms that work and forms that do not, and leaves in `used` what nobody else may know. */
  async function useConsole() {
    const { operator_key } = used;
    const key_digest = secretDigest(operator_key);
    await createOperator(service.db, { name: 'ada', key_digest, operator: 'ada@test' });
    const get = (path: string, cookie = '') =>
      call(web.origin, { path: `/console${path}`, headers: { cookie } });
    // The process learns of it by a notification.
    await until(async () => (await get('/sign-in')).status === 200);
    for (const wrong of [used.unknown_operator_key, used.malformed_operator_key])
      t.equal((await sendTo(web, '/sign-in', { key: wrong }, SAME)).status, 401);
    const signed_in = await sendTo(web, '/sign-in', { key: operator_key }, SAME);
    const [cookie = ''] = String(signed_in.headers['set-cookie']).split(';');
    used.session = cookie.split('=')[1]!;
    const page = await get(`/accounts?name=${used.in_query}`, cookie);
    const hidden = page.text.matchAll(/ type="hidden" name="(\w+)" value="([^"]*)"/g);
    const form = Object.fromEntries(Array.from(hidden, ([, name, value]) => [name!, value!]));
    used.form_token = form['token']!;
    const headers = { ...SAME, cookie };
    const made = await sendTo(web, '/keys', { ...form, account: 'new', tier: 'beta' }, headers);
    used.made_key = /<pre [^>]*>(rl_live_\w{36})<\/pre>/.exec(made.text)![1]!;
    const limits = { per_minute: '1', concurrent: '1', name: used.in_form };
    t.equal((await sendTo(web, '/tiers', { ...form, ...limits, name: '-' }, headers)).status, 400);
    t.equal((await sendTo(web, '/tiers', { token: used.in_form }, headers)).status, 403);
    t.equal((await get(`/${used.in_path}?token=${used.form_token}`, cookie)).status, 404);
    const set_tier = 'runledger.console_set_tier(bytea, text, integer, integer, text)';
    await service.db.unsafe(`alter function ${set_tier} rename to set_tier_away`);
    t.equal((await sendTo(web, '/tiers', { ...form, ...limits }, headers)).status, 500);
  }

  const { json } = await ask({ path: '/api/submit', body });
  await service.worker.finish(json.id, {
    stdout: Buffer.from(used.stdout),
    stderr: Buffer.from(used.stderr),
  });
  t.match((await ask({ path: `/api/result/${json.id}` })).json.stdout, used.stdout);
  const { stdin: _, ...noStdin } = body;
  t.equal(
    (await ask({ path: '/api/submit', body: { ...noStdin, stdin_base64: base64 } })).status,
    202,
  );
  await ask({ path: '/api/submit', body: { ...body, [used.unknown_field]: 1 } });
  await ask({ path: '/api/submit', body: `{"code":"${used.broken_json}"` });
  await ask({ path: '/api/submit', body, key: used.unknown_key });
  await ask({ path: '/api/submit', body, key: used.malformed_key });
  await ask({ path: `/${used.in_path}?key=${used.in_query}` });
  await ask({ path: `/api/result/${used.in_path}?key=${used.in_query}` });
  await ask({
    path: '/api/submit',
    body,
    headers: { 'idempotency-key': used.in_header, traceparent: used.in_header },
  });
  const line = wire(web.port);
  line.send(
    `GET /${used.in_path}?k=${used.in_query} HTTP/1.1\r\nHost x\r\nX-API-Key: ${key}\r\n\r\n`,
  );
  await line.ended();
  await useConsole();
  // An internal error while the request is in memory.
  await service.db.unsafe(
    'alter function runledger.spend_many(bytea, integer, boolean) rename to spend_away',
  );
  t.equal((await ask({ path: '/api/languages' })).status, 500);
  await service.db.unsafe(
    'alter function runledger.spend_away(bytea, integer, boolean) rename to spend_many',
  );
  await way.cut();
  t.equal((await ask({ path: '/api/submit', body })).status, 503);
  await web.stop();

  const log = web.written.join('\n');
  t.ok(web.written.length > 12, `${web.written.length} lines`);
  for (const [name, value] of Object.entries({ ...used, stdin_as_sent: base64 })) {
    t.ok(value.length > 20, `${name} was used`);
    for (const form of [
      value,
      Buffer.from(value).toString('hex'),
      Buffer.from(value).toString('base64'),
    ]) {
      t.notOk(log.includes(form), `${name} is not in the log`);
    }
  }
  for (const each of [key, used.operator_key, used.session, used.made_key])
    t.notOk(log.includes(Buffer.from(secretDigest(each)).toString('hex')), 'nor its digest');
});

t.test('each request has a line with caller, route, duration and status', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const web = service.webs[0]!;
  const reply = await service.submit(key);
  await service.call({ path: '/nope' });
  await web.stop();
  const lines = web.written
    .map((text) => JSON.parse(text))
    .filter((line) => line.msg === 'request');
  t.equal(lines.length, 2, 'one line each');
  const [submit, nope] = lines;
  t.match(submit, {
    level: 'info',
    request_id: reply.headers['x-request-id'],
    method: 'POST',
    route: '/api/submit',
    status: 202,
    account_id: /^f[0-9a-f-]{35}$/,
    key_id: /^f[0-9a-f-]{35}$/,
    submission_id: reply.json.id,
  });
  t.type(submit.duration_ms, 'number');
  t.match(nope, { status: 404, route: '(none)' });
});
