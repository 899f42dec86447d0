/** A ledger that was restored from a copy and goes on: the witness of the original rejects it, and web signs nothing more. */
import t from 'tap';
import type { Context } from '../../src/cli/command.ts';
import { witnesses as witnessCheck } from '../../src/cli/doctor/witness_checks.ts';
import type { Db } from '../../src/db.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { keyText, parseNote, signatureBy } from '../../src/proof/note.ts';
import { judgeCheckpoint, parsePolicy } from '../../src/proof/policy.ts';
import { repair } from '../../src/store/repair.ts';
import { runledger } from '../cli/command_line.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { aWitness } from '../witness/a_witness.ts';
import {
  aLog,
  append,
  aWeb,
  checkpoints,
  cosignatures,
  forkedAfterCopy,
  KEY,
  STRANGER,
  sealAll,
  type Witness,
} from './witnessed_log.ts';

aloneOnItsServer();

t.test(
  'a ledger that was restored from a copy signs nothing after its first contact',
  async (t) => {
    const { copy, witness, original, first } = await forkedAfterCopy(t, { original: 5, copy: 5 });
    const before = await checkpoints(copy.db);
    for (const start of ['a start', 'a restart']) {
      const web = aWeb(copy.web, KEY, [witness]);
      await web.round();
      t.match(
        web.cosigning.states(),
        [{ forked: true, problem: /has 2\d events, and it has cosigned one of/ }],
        start,
      );
      await t.rejects(
        web.sealer.seal(copy.web),
        /the log has forked: the witness witness\.test has another tree/,
      );
      t.match(web.sealer.problem(), /the log has forked/);
      t.match(await web.metrics(), /^runledger_witness_forked\{witness="witness\.test"\} 1$/m);
    }
    t.equal(await checkpoints(copy.db), before, 'nothing was signed');
    await original.append(1);
    await sealAll(original.w.db, original.db, first);
    await first.round();
    t.match(first.cosigning.states(), [{ forked: false, problem: null }], 'the original goes on');
  },
);

for (const [name, copied] of Object.entries({ 'as large': 5, larger: 600 }))
  t.test(`a restored ledger that was sealed and is ${name} is rejected at once`, async (t) => {
    const { copy, witness } = await forkedAfterCopy(t, { original: 5, copy: copied });
    const web = aWeb(copy.web, KEY, [witness]);
    await sealAll(copy.db, copy.web, aWeb(copy.web, KEY, []));
    const before = await cosignatures(copy.db);
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }]);
    t.match(web.sealer.problem(), /the log has forked/);
    await append(copy.db, 1);
    await t.rejects(web.sealer.seal(copy.web), /the log has forked/);
    t.equal(await cosignatures(copy.db), before);
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }], 'it stays so');
    await witness.stop();
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }], 'and when the witness is away, too');
  });

t.test('a new name is not a fork', async (t) => {
  const { copy, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 });
  const renamed = createLogKey(Buffer.alloc(32, 7), 'log.test/two', [KEY.signer.verifier]);
  await repair(copy.db, renamed, { reason: 'restored from a copy', operator: 'test' });
  const dir = witness.dir;
  await witness.stop();
  const knowing = await aWitness(t, [KEY.signer.verifier, renamed.signer.verifier], { dir });
  const web = aWeb(copy.web, renamed, [knowing]);
  await web.round();
  await sealAll(copy.db, copy.web, web);
  await web.round();
  t.match(web.cosigning.states(), [{ forked: false, problem: null, cosigned: { behind: 0 } }]);
});

t.test('doctor asks each witness', async (t) => {
  const { w, original, copy, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 }).then(
    (found) => ({ ...found, w: found.original.w }),
  );
  const away = { key: STRANGER.verifier, url: 'http://127.0.0.1:9' };
  const look = (db: Db, witnesses: readonly Witness[] | null) =>
    witnessCheck.look({ config: { witnesses }, database: async () => db } as unknown as Context);
  t.match(await look(w.db, null), [{ state: 'ok', found: /^none/ }]);
  const empty = await aLog(t);
  t.match(await look(empty.w.db, [witness]), [
    { state: 'ok', found: /there is no checkpoint yet/ },
  ]);
  await original.append(4);
  await sealAll(w.db, original.db, original.web([]));
  t.match(await look(w.db, [witness, away]), [
    { state: 'ok', found: /^witness\.test has cosigned \d+ events, 0 events and 0 s behind/ },
    {
      state: 'warn',
      found: /^stranger\.test has cosigned 0 events, \d+ events and \d+ s behind .*: .+/,
    },
  ]);
  t.match(await look(copy.db, [witness]), [
    { state: 'fail', found: /our tree has \d+ events, and it has cosigned one of \d+/ },
  ]);
  const emptied = {
    config: { witnesses: [witness], seal_key: Buffer.alloc(32, 7), log_origin: KEY.origin },
    database: async () => empty.w.db,
  } as unknown as Context;
  t.match(await witnessCheck.look(emptied), [
    {
      state: 'fail',
      found: /there is no checkpoint yet: our tree has 0 events, and it has cosigned/,
    },
  ]);
});

t.test('the command `seal` asks before it signs, and prints the cosignatures', async (t) => {
  const { copy, original, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 });
  const env = (url: string) => ({
    DATABASE_URL: url,
    RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64'),
    RUNLEDGER_LOG_ORIGIN: KEY.origin,
    RUNLEDGER_WITNESSES: `${keyText(witness.key)}=${witness.url}`,
  });
  await original.append(3);
  const printed = await runledger(['seal'], env(original.w.database.urls.owner));
  t.equal(printed.status, 0, printed.stderr);
  t.ok(signatureBy(parseNote(printed.stdout), witness.key), 'the witness has cosigned it');
  const before = await checkpoints(copy.db);
  const rejected = await runledger(['seal'], env(copy.urls.owner));
  t.equal(rejected.status, 1);
  t.match(rejected.stderr, /the log has forked: the witness witness\.test has another tree/);
  t.equal(rejected.stdout, '');
  t.equal(await checkpoints(copy.db), before);
  const detached = await runledger(['detach', '2001-01'], env(copy.urls.owner));
  t.equal(detached.status, 1);
  t.match(detached.stderr, /the log has forked: the witness witness\.test has another tree/);
  t.equal(await checkpoints(copy.db), before, 'nor does `detach` sign');
  const policy = await runledger(['policy'], env(original.w.database.urls.owner));
  const judged = judgeCheckpoint(parsePolicy(policy.stdout), parseNote(printed.stdout));
  t.match(judged, { problem: null, cosigned: [{ name: 'witness.test' }] });
});
