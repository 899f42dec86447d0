import t from 'tap';
import { parseRemovals } from '../../src/domain/removals.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { keyText, noteText, parseNote, type VerifierKey } from '../../src/proof/note.ts';
import { type Policy, parsePolicy } from '../../src/proof/policy.ts';
import { createSealer, lastCheckpoint } from '../../src/store/checkpoints.ts';
import { repair } from '../../src/store/repair.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';
import { seal } from './seal_now.ts';
import { alone, LOG_VERIFIER, policy, strangers } from './verified.ts';
import { idOf, outcome, start, submission, webhook, world } from './world.ts';

aloneOnItsServer();

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  const more = async (length: number) => {
    for (let n = 0; n < length; n++) {
      const id = idOf(
        await submit({
          secret_digest: digest,
          submission: submission(n % 3 ? {} : { webhook: webhook() }),
        }),
      );
      ids.push(id);
      await start(executions, id);
      await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    }
  };
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  return { w, ids, more, root };
}

t.test('a sealed log is proven with a policy, and consistent without one', async (t) => {
  const { w, more } = await scene(t);
  t.match(await verify(w.db), { well: true, proven: null, unproven: 'there is no checkpoint' });
  await more(8);
  await seal(w.web);
  await more(5);
  await seal(w.web);
  await more(2);
  const proven = await verify(w.db, { policy: alone });
  t.same(proven.problems, []);
  matchLists(t, proven, { well: true, checkpoints: 2, proven: { witnesses: [] }, unproven: null });
  t.equal(proven.sealed + proven.unsealed, proven.events);
  t.equal(proven.proven!.size, proven.sealed);
  t.match(await verify(w.db), { well: true, proven: null, unproven: 'there is no policy' });
});

t.test('a log of the policy that the database has no checkpoint of is named', async (t) => {
  const { w, more } = await scene(t);
  const [second, third] = ['example.org/second', 'example.org/third'].map((name, n) =>
    createLogKey(Buffer.alloc(32, 60 + n), name, [LOG_VERIFIER]),
  );
  const rotated = createLogKey(Buffer.alloc(32, 62), LOG_VERIFIER.name).signer.verifier;
  const trusting = (...keys: VerifierKey[]) =>
    parsePolicy(`${keys.map((each) => `log ${keyText(each)}\n`).join('')}quorum none\n`);
  const both = trusting(LOG_VERIFIER, second!.signer.verifier);
  const unchecked = async (policy: Policy, removals = '') => {
    const report = await verify(w.db, { policy, removals: parseRemovals(removals) });
    t.same(report.problems, []);
    t.ok(report.proven);
    return report.unchecked;
  };
  await more(2);
  await seal(w.web);
  t.same(await unchecked(alone), []);
  t.same(await unchecked(trusting(LOG_VERIFIER, rotated)), [], 'another key of the same name');
  // As it looks before the log is renamed, and after a rollback to then.
  t.same(await unchecked(both), [
    'the database has no checkpoint of the log example.org/second, which the policy names',
  ]);
  await more(2);
  await createSealer(second!).seal(w.web);
  t.same(await unchecked(both), []);

  const before = (await lastCheckpoint(w.web))!;
  const all = trusting(LOG_VERIFIER, second!.signer.verifier, third!.signer.verifier);
  await repair(w.db, third!, { reason: 'a test', operator: 'me@here' });
  await createSealer(third!).seal(w.web);
  const given_up = `repaired ${before.origin} ${before.size}\n`;
  t.same(await unchecked(all, given_up), [], 'a repair gave the name up');
  t.same(
    await unchecked(trusting(LOG_VERIFIER, third!.signer.verifier)),
    [
      'the checkpoints of example.org/second (1, from number 2 on): a repair gave this name up, and the policy does not have it',
    ],
    'anybody can make up a repair of a name that the policy does not have',
  );
});

t.test(
  'events that differ are named, and tiles that differ are not taken for events',
  async (t) => {
    const { w, ids, more, root } = await scene(t);
    await more(4);
    await seal(w.web);
    const of = async (change: string, table: string) => {
      const past = (how: string) =>
        root.unsafe(`alter table runledger.${table} ${how} trigger all`);
      await past('disable');
      await root.unsafe(change);
      await past('enable');
      const { problems } = await verify(w.db, { policy: alone });
      return problems.filter((problem) => !problem.startsWith('the schema '));
    };
    const hash = (byte: string) =>
      `update runledger.log_tiles set hashes = overlay(hashes placing '\\x${byte}' from 65)`;
    const [tile] = await root<{ byte: string }[]>`
    select encode(substr(hashes, 65, 1), 'hex') as byte from runledger.log_tiles`;
    const other = tile!.byte === '00' ? '01' : '00';
    t.same(await of(hash(other), 'log_tiles'), [
      "tile 0/0 does not have the hashes of the log's events",
    ]);
    await of(hash(tile!.byte), 'log_tiles');
    const [row] = await root<{ name: string }[]>`
    select c.relname as name from runledger.events e join pg_class c on c.oid = e.tableoid where e.stream = ${ids[1]!} limit 1`;
    const changed = await of(
      `update runledger.events set at = at + interval '1 microsecond' where stream = '${ids[1]}' and version = 2`,
      row!.name,
    );
    t.equal(changed[0], `changed event: ${ids[1]} version 2 (execution.started)`);
    t.match(
      changed[1],
      /^the log's first \d+ events are not those that checkpoint 1 was signed over$/,
    );
  },
);

t.test('a schema that is not the one of the release is named', async (t) => {
  const { w, root } = await scene(t);
  const [month] = await root<{ name: string }[]>`
    select relname as name from pg_class where relname ~ '^events_\\d{4}_\\d\\d$' order by 1 limit 1`;
  await root.unsafe(`drop trigger refuse_truncate on runledger.${month!.name}`);
  await root.unsafe(
    'create or replace function runledger.retention_stream() returns uuid language sql immutable as $$ select null::uuid $$',
  );
  const { problems, well } = await verify(w.db);
  t.notOk(well);
  t.ok(
    problems.includes(
      `the schema lacks: trigger refuse_truncate on ${month!.name}: runledger.refuse_change() 34 A`,
    ),
  );
  t.ok(
    problems.some((problem) => problem.startsWith('the schema lacks: function retention_stream()')),
  );
  t.equal(problems.length, 3);
});

t.test('a checkpoint counts with the signatures that the policy asks for', async (t) => {
  const { w, root } = await scene(t);
  await seal(w.web);
  matchLists(t, await verify(w.db, { policy }), {
    proven: null,
    problems: [/^the policy accepts no checkpoint of this log: too few witnesses cosigned it: 0/],
  });
  const others = await verify(w.db, { keys: [strangers.verifier] });
  matchLists(t, others.problems, [
    /^checkpoint 1: it is not signed by the log /,
    /^the sketch in the database is not signed/,
  ]);
  const note = parseNote((await verify(w.db)).newest!.note);
  const forged = noteText({ text: note.text, signatures: [strangers.sign(note.text)] });
  await root`alter table runledger.checkpoints disable trigger user`;
  await root`update runledger.checkpoints set note = ${forged}`;
  const { problems } = await verify(w.db, { policy: alone });
  t.ok(
    problems.some((problem) => problem.startsWith('checkpoint 1: it is not signed by the log ')),
  );
});
