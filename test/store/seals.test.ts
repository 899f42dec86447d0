import { randomBytes } from 'node:crypto';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createSigner, leafOf } from '../../src/domain/seal_chain.ts';
import { type HeadFile, headFile, seal } from '../../src/store/seals.ts';
import { verify } from '../../src/store/verify.ts';
import { EVENT } from '../domain/golden.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from './world.ts';

aloneOnItsServer();

const signer = createSigner(Buffer.alloc(32, 7));
const signers = [signer.name];

/** Some submissions with everything that can happen to one; sealed, with a head that was kept. */
async function sealed(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  const more = async (length: number) => {
    const answers = await Promise.all(
      Array.from({ length }, (_, n) =>
        submit({
          secret_digest: digest,
          submission: submission(n % 3 ? {} : { webhook: webhook() }),
        }),
      ),
    );
    for (const id of answers.map(idOf)) {
      ids.push(id);
      await start(executions, id);
      await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    }
  };
  await more(8);
  await seal(w.web, signer);
  await more(8);
  await seal(w.web, signer);
  const head = (await headFile(w.web))!;
  await more(4);
  // as a superuser who has taken the triggers away
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await root.unsafe(`
    do $$ declare p record; begin
      for p in select relid::regclass as name from pg_partition_tree('runledger.events') union all select 'runledger.seals'::regclass
      loop execute format('alter table %s disable trigger all', p.name); end loop;
    end $$`);
  return { w, ids, head, root };
}

/** Lays all seals anew over what is there, with a key of the attacker's own. */
async function sealAnew({ w, root }: { w: World; root: Db }): Promise<void> {
  await root`delete from runledger.seals`;
  await root`delete from runledger.seal_sketch`;
  await seal(w.db, createSigner(randomBytes(32)));
}

const check = (w: World, head: HeadFile | null) => verify(w.db, { head, signers });
/** The guards are off in these tests, which verify tells as well. */
const about = (problems: string[]) =>
  problems.filter((problem) => !problem.includes('is not guarded'));

t.test('SQL and this program hash an event alike', async (t) => {
  const { db } = await world(t);
  const [row] = await db`
    select runledger.event_leaf(${EVENT.stream}, ${EVENT.version}, ${EVENT.type}, ${EVENT.schema}::smallint,
      timestamptz '2000-01-01 00:00:00+00' + ${String(EVENT.at_us)}::bigint * interval '1 microsecond', ${EVENT.generation}::smallint,
      ${String(EVENT.xid)}::text::xid8, ${String(EVENT.seq)}::bigint, ${EVENT.facts}::text::jsonb) as leaf`;
  t.same(row!['leaf'], leafOf(EVENT));
});

t.test('what is sealed is proven, and what is not yet is counted', async (t) => {
  const { w, head } = await sealed(t);
  const report = await check(w, head);
  t.same(about(report.problems), []);
  t.match(report.seals, { seals: 2, head: { number: '2', proven: true } });
  t.equal(report.seals.sealed_events + report.seals.unsealed_events, report.events);
  t.ok(report.seals.unsealed_events >= 12);
  await seal(w.web, signer);
  t.match((await check(w, head)).seals, { seals: 3, unsealed_events: 0, head: { proven: true } });
  t.same(await seal(w.web, signer), [], 'where nothing is new no seal is laid');
});

t.test('two that seal at once lay one chain', async (t) => {
  const { w } = await sealed(t);
  const done = await Promise.all([seal(w.web, signer), seal(w.web, signer), seal(w.db, signer)]);
  t.equal(done.flat().length, 1);
  t.same(about((await check(w, null)).problems), []);
});

t.test('a running transaction holds the seal back', async (t) => {
  const { w } = await sealed(t);
  const slow = w.connect(w.database.url, 1);
  await slow`begin`;
  await slow`select runledger.append_events(runledger.permanent_id(), 0, '{account.created}', array['{"name": "slow"}'::jsonb])`;
  await w.tier('later', 1, 1);
  await seal(w.web, signer);
  const before = (await check(w, null)).seals;
  t.match(before, { unsealed_events: 1 }, 'what was committed after it began has to wait, too');
  await slow`commit`;
  t.match((await check(w, null)).seals, { seals: before.seals, unsealed_events: 2 });
  await seal(w.web, signer);
  const after = await check(w, null);
  t.match(after.seals, { unsealed_events: 0 });
  t.same(after.seals.problems, []);
});

const attacks: Record<
  string,
  { does(s: Awaited<ReturnType<typeof sealed>>): Promise<unknown>; names(ids: string[]): RegExp }
> = {
  'one changed byte': {
    does: ({ root, ids }) => root`
      update runledger.events set facts = jsonb_set(facts, '{verdict}', '"AD"') where stream = ${ids[3]!} and version = 3`,
    names: (ids) => new RegExp(`^changed event: ${ids[3]} version 3 \\(submission.completed\\)$`),
  },
  'another time': {
    does: ({ root, ids }) =>
      root`update runledger.events set at = at + interval '1 microsecond' where stream = ${ids[9]!} and version = 2`,
    names: (ids) => new RegExp(`^changed event: ${ids[9]} version 2 \\(execution.started\\)$`),
  },
  'a removed tail': {
    does: async ({ root, ids }) => {
      for (const table of ['submissions', 'deliveries'])
        await root.unsafe(`delete from runledger.${table} where id >= '${ids[12]}'`);
      await root`delete from runledger.payloads where stream >= ${ids[12]!} and stream < 'f0000000-0000-0000-0000-000000000000'`;
      await root`delete from runledger.events where stream >= ${ids[12]!} and stream < 'f0000000-0000-0000-0000-000000000000'`;
    },
    names: (ids) => new RegExp(`^removed event: ${ids[12]} version 1$`),
  },
  'the tail of one stream': {
    does: ({ root, ids }) =>
      root`delete from runledger.events where stream = ${ids[2]!} and version >= 3`,
    names: (ids) => new RegExp(`^removed event: ${ids[2]} version 3$`),
  },
  'a removed stream': {
    does: async ({ root, ids }) => {
      await root`delete from runledger.events where stream = ${ids[5]!}`;
      await root`delete from runledger.submissions where id = ${ids[5]!}`;
      await root`delete from runledger.payloads where stream = ${ids[5]!}`;
    },
    names: (ids) => new RegExp(`^removed event: ${ids[5]} version 1$`),
  },
  'an inserted event': {
    does: ({ root, ids }) => root`
      insert into runledger.events (stream, version, type, schema, at, generation, xid, facts)
      select stream, 4, 'execution.refused', 1, at, generation, xid,
        '{"attempt": 1, "consumer": "d5878fba-2e0c-4f31-a614-7160c2c48760", "verdict": "AC"}'
      from runledger.events where stream = ${ids[1]!} and version = 3`,
    names: (ids) => new RegExp(`^inserted event: ${ids[1]} version 4 \\(execution.refused\\)$`),
  },
};

for (const [name, { does, names }] of Object.entries(attacks)) {
  t.test(`${name}, all hashes computed anew: found by the head, and named`, async (t) => {
    const s = await sealed(t);
    await does(s);
    t.notOk((await check(s.w, null)).well, 'found without a head while the seals are as they were');
    await sealAnew(s);
    const report = await check(s.w, s.head);
    t.notOk(report.well);
    t.match(report.first_difference, names(s.ids));
    t.match(report.seals.head, { proven: false });
  });
}

t.test('a tail that was removed with its seals is found by the head', async (t) => {
  const s = await sealed(t);
  const [before] = await s.root`select to_xid::text from runledger.seals where number = 1`;
  await s.root`delete from runledger.events where xid >= ${before!['to_xid']}::text::xid8`;
  await s.root`delete from runledger.seals where number > 1`;
  const report = await check(s.w, s.head);
  t.ok(
    report.problems.some((problem) =>
      problem.startsWith('the log has no seal 2: its tail was removed'),
    ),
  );
  t.match(report.first_difference, /^removed event: /);
});

t.test('more changes than a sketch can tell: the first seal at fault is named', async (t) => {
  const s = await sealed(t);
  const { submit } = s.w.submissions();
  await s.w.tier('wide', 0, 0);
  const { digest } = await s.w.key({ tier: 'wide' });
  await Promise.all(
    Array.from({ length: 600 }, () => submit({ secret_digest: digest, submission: submission() })),
  );
  await seal(s.w.web, signer);
  const head = await headFile(s.w.web);
  await s.root`update runledger.events set at = at + interval '1 second' where type = 'submission.accepted' and seq > 100`;
  const report = await check(s.w, head);
  t.same(report.seals.events, []);
  t.match(report.first_difference, /^seal 3 \(.*\): an event of events_\d{4}_\d\d was changed$/);
});

t.test('no seal is laid upon one that was tampered with', async (t) => {
  const s = await sealed(t);
  await s.root`update runledger.seals set hash = sha256('other') where number = 2`;
  await t.rejects(seal(s.w.web, signer), /seal 2 is not signed by our key/);
  const other = await sealed(t);
  await other.root`update runledger.seal_sketch set cells = set_byte(cells, 0, 1)`;
  await t.rejects(seal(other.w.web, signer), /the sketch is not the one that seal 2 signed/);
});

t.test('a head that was changed or signed by another proves nothing', async (t) => {
  const { w, head } = await sealed(t);
  const problems = async (file: HeadFile) => about((await check(w, file)).problems).join('\n');
  t.match(await problems({ ...head, total: '1' }), /its signature is not by/);
  const forged = createSigner(Buffer.alloc(32, 9));
  t.match(
    await problems({ ...head, signer: forged.name }),
    /^$/,
    'the name in the file is not what counts',
  );
  t.match(
    await problems({ ...head, sketch: Buffer.alloc(100).toString('base64') }),
    /its sketch is not the one it signs/,
  );
});
