/** Rejected requests of a web process, as the auditor sees them. */
import t from 'tap';
import { HELLO, startService } from './support/service.ts';

t.test('a web process counts what it rejects, and nothing else', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key({ account: 'acme' });
  const tiny = await service.key({ account: 'tiny', tier: 'beta' });
  const submitted = await service.submit(key);
  for (let n = 0; n < 62; n++) await service.call({ path: '/api/languages', key: tiny });
  await service.call({ path: '/api/languages' });
  await service.call({ path: '/api/languages', key: `${key}x` });
  await service.submit(key, { ...HELLO, code: 'x'.repeat(3 * 1024 * 1024) });
  await service.call({ path: '/nowhere', key });
  const other = await service.key({ account: 'other', tier: 'beta' });
  await service.call({
    method: 'POST',
    path: '/api/submissions',
    key: other,
    body: Array(63).fill(HELLO),
  });
  await service.webs[0]!.stop();
  const rows = await service.db`
    select error, account, key_prefix, requests::integer from runledger.audit_refusals order by error, account`;
  t.match(rows, [
    { error: 'payload_too_large', account: 'acme', requests: 1 },
    { error: 'rate_limited', account: 'other', requests: 3 },
    { error: 'rate_limited', account: 'tiny', requests: 2 },
    { error: 'unauthorized', account: null, key_prefix: 'none', requests: 2 },
  ]);
  t.equal(rows.length, 4);
  const request_id = String(submitted.headers['x-request-id']);
  const found = await service.db`
    select submission_id, account from runledger.audit_requests where request_id = ${request_id}`;
  t.match(found, [{ submission_id: submitted.json.id, account: 'acme' }]);
});
