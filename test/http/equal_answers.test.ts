/** A stranger learns nothing from a 401 or a 404, neither from its bytes nor from the work for it. */

import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect } from '../../src/db.ts';
import { createKey, revokeKey, rotateKey, setTier } from '../../src/store/keys.ts';
import { ownServer } from '../support/database.ts';
import { type Call, call } from './support/call.ts';
import { plain } from './support/plain.ts';
import { HELLO } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

t.test('equal answers run equal statements', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-statements-'));
  // The server runs as another user.
  chmodSync(folder, 0o777);
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const database = await ownServer(t, {
    logging_collector: 'on',
    log_directory: folder,
    log_filename: 'statements',
    log_file_mode: '0644',
    log_line_prefix: '%a|',
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_format': 'json',
  });
  const db = connect(database.urls.owner, { name: 'operator', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  await setTier(db, { name: 'unlimited', per_minute: 0, concurrent: 0 });
  const web = await webProcess(t, database);

  const make = async (account: string) => {
    const secret = newSecret('rl');
    const secret_digest = secretDigest(secret);
    const id = await createKey(db, { account, tier: 'unlimited', prefix: 'rl', secret_digest });
    return { secret, id };
  };
  const mine = await make('mine');
  const theirs = await make('theirs');
  const revoked = await make('theirs');
  await revokeKey(db, revoked.id);
  const expired = await make('theirs');
  const rotation = { id: expired.id, secret_digest: secretDigest(newSecret('rl')), grace_ms: 0 };
  await rotateKey(db, rotation);
  const { json } = await call(web.origin, { path: '/api/submit', key: theirs.secret, body: HELLO });

  /** Every statement that was run for the answer, also inside functions. */
  async function statementsOf(asked: Call): Promise<{ answer: string; statements: string[] }> {
    const mark = () => readFileSync(join(folder, 'statements'), 'utf8').length;
    const from = mark();
    const answer = plain(await call(web.origin, asked));
    // The collector writes in order: when the marker is there, so is everything before it.
    const marker = randomUUID();
    await db.unsafe(`select '${marker}'`);
    let text = '';
    while (!text.includes(marker)) {
      await wait(5);
      text = readFileSync(join(folder, 'statements'), 'utf8').slice(from);
    }
    const lines = text.split('\n').filter((line) => /"Query Text"/.test(line));
    const statements = lines
      .map((line) =>
        JSON.parse(`{${line.trim().replace(/,$/, '')}}`)['Query Text'].replace(/\s+/g, ' '),
      )
      .filter((query: string) =>
        /spend|read_result|read_receipt|events|checkpoints|find_key|submit_many|key_usage|submissions|payloads/.test(
          query,
        ),
      )
      .filter((query: string) => !/sweep|consumers|heartbeat|graphile/.test(query));
    return { answer, statements };
  }

  async function same(name: string, calls: Call[], least: number): Promise<void> {
    // The first call of a session also plans its statements.
    for (const asked of calls) await statementsOf(asked);
    const seen = [];
    for (const asked of calls) seen.push(await statementsOf(asked));
    t.equal(new Set(seen.map(({ answer }) => answer)).size, 1, `${name}: equal to the byte`);
    t.ok(seen[0]!.statements.length >= least, `${name}: ${seen[0]!.statements.length} statements`);
    for (const { statements } of seen) t.same(statements, seen[0]!.statements, `${name}: the same`);
  }

  const keys = [newSecret('rl'), revoked.secret, expired.secret];
  await same(
    '401 of a read',
    keys.map((key) => ({ path: `/api/result/${randomUUID()}`, key })),
    2,
  );
  await same(
    '401 of a submission',
    keys.map((key) => ({ path: '/api/submit', key, body: HELLO })),
    2,
  );
  await same(
    '401 of an unknown address',
    keys.map((key) => ({ path: '/api/nope', key })),
    2,
  );
  const ids = [randomUUID(), json.id, randomUUID()];
  await same(
    '404',
    ids.map((id) => ({ path: `/api/result/${id}`, key: mine.secret })),
    3,
  );
  await same(
    '404 of a submission',
    ids.map((id) => ({ path: `/api/submissions/${id}`, key: mine.secret })),
    3,
  );
  await same(
    'a list of what the account does not have',
    ids.map((id) => ({ path: `/api/submissions?ids=${id},${randomUUID()}`, key: mine.secret })),
    3,
  );
  await same(
    '404 of a receipt',
    ids.map((id) => ({ path: `/api/result/${id}/proof`, key: mine.secret })),
    3,
  );
});
