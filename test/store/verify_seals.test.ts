import t from 'tap';
import { createSigner, type HeadFile } from '../../src/domain/seal_chain.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { headFile, seal } from './old_chain.ts';
import { about, check, sealAnew, sealed, signer } from './sealed_log.ts';
import { submission } from './world.ts';

aloneOnItsServer();

t.test('sealed events are proven, and events that are not sealed yet are counted', async (t) => {
  const { w, head } = await sealed(t);
  const report = await check(w, head);
  t.same(about(report.problems), []);
  t.match(report.seals, { seals: 2, head: { number: '2', proven: true } });
  const seals = report.seals!;
  t.equal(seals.sealed_events + seals.unsealed_events, report.events);
  t.ok(seals.unsealed_events >= 12);
  await seal(w.db, signer);
  t.match((await check(w, head)).seals, { seals: 3, unsealed_events: 0, head: { proven: true } });
  t.same(await seal(w.db, signer), [], 'without new events there is no new seal');
});

const attacks: Record<
  string,
  { does(s: Awaited<ReturnType<typeof sealed>>): Promise<unknown>; names(ids: string[]): RegExp }
> = {
  'one changed byte': {
    does: ({ root, ids }) => root`
      update runledger.events set facts = jsonb_set(facts, '{exit_code}', '7') where stream = ${ids[3]!} and version = 3`,
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
      select stream, 4, 'execution.refused', 2, at, generation, xid,
        '{"attempt": 1, "consumer": "d5878fba-2e0c-4f31-a614-7160c2c48760", "verdict": "AC"}'
      from runledger.events where stream = ${ids[1]!} and version = 3`,
    names: (ids) => new RegExp(`^inserted event: ${ids[1]} version 4 \\(execution.refused\\)$`),
  },
};

for (const [name, { does, names }] of Object.entries(attacks)) {
  t.test(`${name}, with all hashes recomputed: found by the head, and named`, async (t) => {
    const s = await sealed(t);
    await does(s);
    await sealAnew(s);
    const report = await check(s.w, s.head);
    t.notOk(report.well);
    t.match(about(report.problems)[0], names(s.ids));
    t.match(report.seals!.head, { proven: false });
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
  t.match(about(report.problems)[0], /^removed event: /);
});

t.test('more changes than a sketch can hold: the first wrong seal is named', async (t) => {
  const s = await sealed(t);
  const { submit } = s.w.submissions();
  await s.w.tier('wide', 0, 0);
  const { digest } = await s.w.key({ tier: 'wide' });
  await Promise.all(
    Array.from({ length: 600 }, () => submit({ secret_digest: digest, submission: submission() })),
  );
  await seal(s.w.db, signer);
  const head = await headFile(s.w.db);
  await s.root`update runledger.events set at = at + interval '1 second' where type = 'submission.accepted' and seq > 100`;
  const report = await check(s.w, head);
  t.same(report.seals!.events, []);
  t.match(about(report.problems)[0], /^seal 3 \(.*\): an event of events_\d{4}_\d\d was changed$/);
});

t.test('a head that was changed or signed by another proves nothing', async (t) => {
  const { w, head } = await sealed(t);
  const problems = async (file: HeadFile) => about((await check(w, file)).problems).join('\n');
  t.match(await problems({ ...head, total: '1' }), /its signature is not by/);
  const forged = createSigner(Buffer.alloc(32, 9));
  t.match(
    await problems({ ...head, signer: forged.name }),
    /^$/,
    'the name in the file decides nothing',
  );
  t.match(
    await problems({ ...head, sketch: Buffer.alloc(100).toString('base64') }),
    /its sketch is not the one it signs/,
  );
  for (const change of [{ total: '1' }, { generation: 9 }, { to_xid: '1' }] as const) {
    const [[name, value] = ['', '']] = Object.entries(change);
    const file = { ...head, ...change, signature: null, signer: null };
    const report = await verify(w.db, { head: file, signers: [] });
    const says = new RegExp(
      `^head 2 \\(.*\\): its ${name} is ${value}, and that of the seal is \\d+$`,
    );
    t.ok(report.problems.some((problem) => says.test(problem)));
    t.match(report.seals!.head, { found: false, proven: false });
  }
});

t.test('a head that nobody signed whose key counts is not proven', async (t) => {
  const { w, head } = await sealed(t);
  const headOf = async (file: HeadFile, signers: readonly string[]) => {
    const { problems, seals } = await verify(w.db, { head: file, signers });
    t.same(about(problems), []);
    return seals!.head;
  };
  t.match(await headOf(head, [signer.name]), { found: true, proven: true });
  t.match(await headOf(head, []), { found: true, proven: false }, 'it names its own signer');
  const unsigned = { ...head, signature: null, signer: null };
  t.match(await headOf(unsigned, []), { found: true, proven: false });
});
