/** A real web process on a ledger that was restored from a copy: it says so, signs nothing, and goes on serving. */
import t, { type Test } from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect } from '../../src/db.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { keyText } from '../../src/proof/note.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { call, freePort } from '../http/support/call.ts';
import { webProcess } from '../http/support/web_process.ts';
import { world } from '../store/world.ts';
import { aloneOnItsServer, type TestDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { aWitness, type RunningWitness } from '../witness/a_witness.ts';
import { copyOf } from './copy_of.ts';

aloneOnItsServer();

const SEED = Buffer.alloc(32, 7);
const ORIGIN = 'log.test/one';
const KEY = createLogKey(SEED, ORIGIN);

async function start(t: Test, urls: { web: string }, witness: RunningWitness) {
  const port = await freePort();
  const web = await webProcess(t, { urls } as unknown as TestDatabase, {
    RUNLEDGER_SEAL_KEY: SEED.toString('base64'),
    RUNLEDGER_LOG_ORIGIN: ORIGIN,
    RUNLEDGER_WITNESSES: `${keyText(witness.key)}=${witness.url}/`,
    RUNLEDGER_METRICS_PORT: String(port),
    // A busy machine takes longer than without a grace.
    RUNLEDGER_SHUTDOWN_GRACE: '1min',
  });
  const metrics = async () => (await call(`http://127.0.0.1:${port}`, { path: '/metrics' })).text;
  return { ...web, metrics };
}

t.test('the original is cosigned, and the copy is found out', async (t) => {
  const w = await world(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await w.tier('one', 1, 1);
  const secret = newSecret('rl');
  await createKey(w.db, {
    account: 'a',
    tier: 'one',
    prefix: 'rl',
    secret_digest: secretDigest(secret),
  });
  await setTier(w.db, { name: 'one', per_minute: 0, concurrent: 0 });
  const health = async (origin: string) =>
    (await call(origin, { path: '/api/health', key: secret })).json;
  const cosigned = async () =>
    Number((await w.db`select coalesce(max(size), 0) as n from runledger.cosignatures`)[0]!['n']);

  const original = await start(t, w.database.urls, witness);
  t.ok(await eventually(async () => (await cosigned()) > 0), 'a checkpoint was cosigned');
  await eventually(async () => (await health(original.origin)).log.witnesses[0].lag_leaves === 0);
  t.match((await health(original.origin)).log.witnesses, [
    { name: 'witness.test', lag_leaves: 0, lag_s: 0, forked: false, problem: null },
  ]);
  t.match(
    await original.metrics(),
    /^runledger_witness_lag_seconds\{witness="witness\.test"\} 0$/m,
  );
  await original.stop();
  const before = await cosigned();

  const copy = await copyOf(t, w);
  const again = await start(t, w.database.urls, witness);
  await w.tier('two', 1, 1);
  t.ok(await eventually(async () => (await cosigned()) > before), 'the original goes on');
  await again.stop();

  const db = connect(copy.urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const checkpoints = async () =>
    (await db`select count(*) as n from runledger.checkpoints`)[0]!['n'];
  const kept = await checkpoints();
  await setTier(db, { name: 'three', per_minute: 1, concurrent: 1 });
  const web = await start(t, copy.urls, witness);
  const wrote = (pattern: RegExp) => web.written.some((line) => pattern.test(line));
  t.ok(await eventually(() => wrote(/a witness has another tree/)), 'the log says so');
  t.ok(
    await eventually(() => wrote(/the log is not sealed/)),
    'sealing was due, and did not happen',
  );
  t.equal(await checkpoints(), kept, 'nothing was signed');
  const now = await health(web.origin);
  t.match(now, {
    status: 'degraded',
    log: {
      problem: /the log has forked: the witness witness\.test has another tree/,
      witnesses: [{ forked: true, problem: /it has cosigned one of/ }],
    },
  });
  t.match(await web.metrics(), /^runledger_witness_forked\{witness="witness\.test"\} 1$/m);
  t.match(await web.metrics(), /^runledger_log_sealing 0$/m);
  const submitted = await call(web.origin, {
    path: '/api/submit',
    key: secret,
    body: { language: 'python', code: 'print(1)' },
  });
  t.equal(submitted.status, 202, 'it goes on serving');
  t.equal(await web.stop(), 0);
});
