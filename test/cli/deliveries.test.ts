import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { localSecrets } from '../../src/local/secrets.ts';
import { decryptSecret } from '../../src/webhooks/encrypt_secret.ts';
import { openBench } from '../queue/delivery_bench.ts';
import { runledger } from './command_line.ts';

const URL_OF_HOOK = 'https://hooks.example.com/';
const FACTS = {
  status: null,
  detail: null,
  address: null,
  retry_after_ms: null,
  answer_bytes: 0,
  answer_cut: false,
  duration_ms: 0,
};
const UNKNOWN = '01970000-0000-7000-8000-000000000000';

t.test('deliveries are listed, newest first', async (t) => {
  const { ended, db, env } = await openBench(t);
  const ids = [await ended(URL_OF_HOOK), await ended(URL_OF_HOOK)];
  const facts = JSON.stringify({ ...FACTS, outcome: 'refused_status', status: 410 });
  await db`select runledger.append_delivery_attempt(${ids[0]!}, 0, ${facts}::text::jsonb, '{"end": "gone"}')`;
  const all = await runledger(['deliveries', 'list', '--json'], env);
  t.equal(all.status, 0, all.stderr);
  t.match(JSON.parse(all.stdout), [
    {
      submission_id: ids[1],
      account: 'a',
      status: 'waiting',
      attempts: 0,
      last_outcome: null,
      next_at: String,
    },
    {
      submission_id: ids[0],
      status: 'gone',
      attempts: 1,
      last_outcome: 'refused_status',
      last_status: 410,
      next_at: null,
    },
  ]);
  const gone = await runledger(['deliveries', 'list', '--status', 'gone'], env);
  t.match(gone.stdout, new RegExp(`^submission_id .*\\n${ids[0]} .*410`));
  t.notMatch(gone.stdout, ids[1]!);
  const one = await runledger(['deliveries', 'list', '--limit', '1', '--json'], env);
  t.equal(JSON.parse(one.stdout).length, 1);
});

t.test('a replayed delivery is due now; one that has ended needs its secret', async (t) => {
  const { ended, db, env } = await openBench(t);
  const id = await ended(URL_OF_HOOK);
  const facts = JSON.stringify({ ...FACTS, outcome: 'timeout' });
  const append = (after: number, next: object) =>
    db`select runledger.append_delivery_attempt(${id}, ${after}, ${facts}::text::jsonb, ${JSON.stringify(next)}::text::jsonb)`;
  const state = async () =>
    (
      await db`select status, next_at <= now() as due from runledger.deliveries where id = ${id}`
    )[0];

  await append(0, { retry_in_ms: 3_600_000, counts: true });
  t.same(await state(), { status: 'waiting', due: false });
  t.match(await runledger(['deliveries', 'replay', id], env), {
    status: 0,
    stdout: '',
    stderr: /delivered now/,
  });
  t.same(await state(), { status: 'waiting', due: true });

  await append(1, { end: 'exhausted' });
  t.match(await runledger(['deliveries', 'replay', id], env), {
    status: 1,
    stderr: /--secret-stdin/,
  });
  t.same(await state(), { status: 'exhausted', due: null });
  t.match(await runledger(['deliveries', 'replay', id, '--secret-stdin'], env, 'its secret\n'), {
    status: 0,
  });
  t.same(await state(), { status: 'waiting', due: true });
  const [stored] =
    await db`select length(ciphertext)::integer as bytes from runledger.webhook_secrets where submission_id = ${id}`;
  t.same(stored, { bytes: 'its secret'.length + 16 }, 'without its line break');
});

t.test('the secret is encrypted by the key that `serve` made', async (t) => {
  const { ended, db, env } = await openBench(t);
  const id = await ended(URL_OF_HOOK);
  const facts = JSON.stringify({ ...FACTS, outcome: 'timeout' });
  await db`select runledger.append_delivery_attempt(${id}, 0, ${facts}::text::jsonb, '{"end": "exhausted"}')`;
  const RUNLEDGER_STATE_DIR = await mkdtemp(join(tmpdir(), 'runledger-replay-'));
  t.teardown(() => rm(RUNLEDGER_STATE_DIR, { recursive: true }));
  const replay = () =>
    runledger(
      ['deliveries', 'replay', id, '--secret-stdin'],
      { ...env, RUNLEDGER_WEBHOOK_KEYS: '', RUNLEDGER_STATE_DIR },
      'its secret',
    );
  t.match(await replay(), { status: 1, stderr: /RUNLEDGER_WEBHOOK_KEYS is not set/ });
  const { RUNLEDGER_WEBHOOK_KEYS } = await localSecrets(RUNLEDGER_STATE_DIR);
  t.match(await replay(), { status: 0, stderr: /delivered now/ });
  const { webhook_keys } = loadConfig({ RUNLEDGER_WEBHOOK_KEYS });
  const [row] = await db<{ key_id: string; nonce: Buffer; ciphertext: Buffer }[]>`
    select encryption_key_id as key_id, nonce, ciphertext from runledger.webhook_secrets where submission_id = ${id}`;
  t.same(decryptSecret(webhook_keys!, id, row!), { kind: 'decrypted', secret: 'its secret' });
});

t.test('a replay or list that is not possible is explained in one line', async (t) => {
  const { env } = await openBench(t);
  const fails = async (args: string[], status: number, stderr: RegExp, input = '') =>
    t.match(
      await runledger(['deliveries', ...args], env, input),
      { status, stdout: '', stderr },
      args.join(' '),
    );
  await fails(['replay', UNKNOWN], 1, /^\S+ no such delivery.*\n$/);
  await fails(['replay', 'not-an-id'], 2, /not the id of a submission\n$/);
  await fails(['replay', UNKNOWN, '--secret-stdin'], 2, /1 to 256 bytes, not 0\n$/);
  await fails(['replay', UNKNOWN, '--secret-stdin'], 2, /not 257\n$/, 'x'.repeat(257));
  await fails(['replay', UNKNOWN, '--secret-stdin'], 2, /base64 must follow/, 'whsec_YWJj ');
  await fails(['replay'], 2, /^usage: \.\/runledger deliveries replay ID/);
  await fails(['list', '--status', 'lost'], 2, /--status must be one of waiting/);
  await fails(['list', '--limit', '0'], 2, /--limit must be/);
});
