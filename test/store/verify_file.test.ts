/** An exported log, checked without a database: its sketch, and what was done to the log as a whole. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import t from 'tap';
import { usOf } from '../../src/domain/clocks.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { addItems, emptySketch, itemBytes } from '../../src/domain/sketch.ts';
import { parseCheckpoint } from '../../src/proof/checkpoint.ts';
import { entryOf, parseEntry } from '../../src/proof/entry.ts';
import {
  type ExportRecord,
  ExportWriter,
  gapBody,
  parseSketch,
  type RecordKind,
  readExport,
} from '../../src/proof/export_file.ts';
import { sketchText } from '../../src/proof/log_key.ts';
import { leafHash } from '../../src/proof/merkle.ts';
import {
  cosignedAt,
  NoteSigner,
  parseNote,
  signatureLine,
  type VerifierKey,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { lastCheckpoint } from '../../src/store/checkpoints.ts';
import { putCosignature, witnessName } from '../../src/store/cosignatures.ts';
import { exportLog } from '../../src/store/export_log.ts';
import { repair } from '../../src/store/repair.ts';
import { detachMonth } from '../../src/store/retention.ts';
import { verify } from '../../src/store/verify.ts';
import { verifyFile } from '../../src/store/verify_file.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';
import { BOTH_NAMES, RENAMED } from '../tamper/claim_manipulations.ts';
import { key, seal } from './seal_now.ts';
import { alone, policy, witnesses } from './verified.ts';
import { idOf, newId, outcome, start, submission, world } from './world.ts';

aloneOnItsServer();

const DAY_MS = 86_400_000;

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const runOne = async (change = {}) => {
    const id = idOf(await submit({ secret_digest: digest, submission: submission(change) }));
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    return id;
  };
  const folder = await mkdtemp(join(tmpdir(), 'runledger-export-'));
  t.teardown(() => rm(folder, { recursive: true }));
  let files = 0;
  const newFile = () => join(folder, String(++files));
  const exported = async (first: readonly VerifierKey[] = []) => {
    const path = newFile();
    const gone = w.connect(w.database.url, 1);
    await gone.end();
    // Half of one would be in the way of the next.
    await exportLog(gone, path, first).then(
      () => {
        throw new Error('it needs the database');
      },
      () => {},
    );
    await exportLog(w.db, path, first);
    return path;
  };
  /** Writes the records as a file of its own. */
  const written = async (records: readonly ExportRecord[]) => {
    const path = newFile();
    const file = createWriteStream(path);
    const writer = new ExportWriter(async (bytes) => void file.write(bytes));
    for (const { kind, body } of records) await writer.put(kind, body);
    await writer.end();
    await finished(file.end());
    return path;
  };
  return { w, runOne, exported, written };
}

const check = (path: string, removals = '') =>
  verifyFile(path, { policy: alone, keys: [], removals: parseRemovals(removals), kept: null });

async function recordsOf(path: string): Promise<ExportRecord[]> {
  const all: ExportRecord[] = [];
  for await (const some of readExport(createReadStream(path)))
    all.push(...some.map(({ kind, body }) => ({ kind, body: Buffer.from(body) })));
  return all;
}

const positionOf = (records: readonly ExportRecord[], kind: RecordKind) =>
  records.findLastIndex((record) => record.kind === kind);

t.test('the sketch of an exported log must be that of its events, signed or not', async (t) => {
  const { w, runOne, exported, written } = await scene(t);
  await runOne();
  await seal(w.web);
  const id = await runOne();
  await seal(w.web);
  await runOne();
  const path = await exported();
  const records = await recordsOf(path);
  t.same(
    records.map(({ kind }) => kind).filter((kind) => kind !== 'entry'),
    ['checkpoint', 'checkpoint', 'sketch'],
  );
  const honest = await check(path);
  t.same(honest.problems, []);
  t.equal(honest.proven!.size, honest.sealed);
  t.same(honest.unchecked, []);
  const both = { policy: BOTH_NAMES, keys: [], removals: null, kept: null };
  t.same((await verifyFile(path, both)).unchecked, [
    `the file has no checkpoint of the log ${RENAMED.origin}, which the policy names`,
  ]);

  const at = positionOf(records, 'sketch');
  const { cells } = parseSketch(records[at]!.body);
  const of = parseCheckpoint(parseNote(records[at - 1]!.body.toString()).text);
  /** A sketch with these cells that our key really signed. */
  const signed = (cells: Buffer): ExportRecord => {
    const { bytes } = key.signer.sign(sketchText(of, cells));
    return { kind: 'sketch', body: Buffer.concat([bytes, cells]) };
  };
  const problemsOf = async (changed: readonly ExportRecord[]) => {
    const { problems, proven } = await check(await written(changed));
    t.equal(proven, null);
    return problems;
  };
  const withSketch = (...sketch: readonly ExportRecord[]) =>
    problemsOf(records.toSpliced(at, 1, ...sketch));
  const changed = (change: (sketch: Buffer) => void) => {
    const copy = Buffer.from(cells);
    change(copy);
    return withSketch(signed(copy));
  };
  const end = records
    .filter(({ kind }) => kind === 'entry')
    .find(({ body }) => {
      const { stream, type } = parseEntry(body);
      return stream === id && type === 'submission.completed';
    })!;
  const item = itemBytes(id, 3, leafHash(end.body));
  const other = itemBytes(id, 3, Buffer.alloc(32, 1));
  const name = `${id} version 3`;
  t.same(await changed((sketch) => addItems(sketch, item, -1)), [
    `the file has ${name}, which the sketch lacks`,
  ]);
  t.same(await changed((sketch) => addItems(sketch, itemBytes(id, 4, Buffer.alloc(32)))), [
    `the sketch has ${id} version 4, which the file lacks`,
  ]);
  t.same(
    await changed((sketch) => {
      addItems(sketch, item, -1);
      addItems(sketch, other);
    }),
    [`the sketch has another leaf of ${name} than the file`],
  );
  matchLists(t, await withSketch(signed(emptySketch().fill(1))), [
    /^the sketch is not that of the events in the file, and differs in more/,
  ]);
  t.same(await withSketch(signed(cells.subarray(64))), [
    `the cells of the sketch have ${cells.length - 64} bytes, and not ${cells.length}`,
  ]);
  t.same(await withSketch(signed(cells), signed(cells)), ['the file has more than one sketch']);
  const late = records.toSpliced(at, 1).toSpliced(at, 0, records[at + 1]!, signed(cells));
  t.equal((await problemsOf(late.toSpliced(at + 2, 1))).length, 1, 'an event before the sketch');
  const early = records.toSpliced(at, 1);
  const first = early.findIndex(({ kind }) => kind === 'checkpoint');
  matchLists(t, await problemsOf(early.toSpliced(first + 1, 0, signed(cells))), [
    /^the sketch is not signed by the log/,
    'the sketch is not that of the newest checkpoint',
  ]);
  t.same(await problemsOf([signed(cells), ...early]), ['the sketch belongs to no checkpoint']);
  const none = await check(await written(records.toSpliced(at, 1)));
  t.same(none.problems, [], 'a file without a sketch is proven, too');
});

t.test('an event that is dated back is a problem in the database and in the file', async (t) => {
  const { w, runOne, exported } = await scene(t);
  await runOne();
  const append = (name: string, minutes: number) =>
    w.db.unsafe(`insert into runledger.events (stream, version, type, schema, at, generation, facts)
      values (runledger.permanent_id(), 1, 'tier.set', 1, now() - interval '${minutes} minutes', 1,
        '{"name": "${name}", "per_minute": 1, "concurrent": 1}')`);
  const both = async () => {
    await seal(w.web);
    const inside = await verify(w.db, { policy: alone, keys: [] });
    const outside = await check(await exported());
    return [inside, outside].map(({ problems }) => problems.filter((line) => /time/.test(line)));
  };
  await append('set right', 50);
  t.same(await both(), [[], []]);
  await append('dated back', 70);
  matchLists(t, await both(), [
    [/long before those of earlier events/],
    [/long before those of earlier events/],
  ]);
});

t.test('events that were detached stay in the sketch', async (t) => {
  const { w, runOne, exported, written } = await scene(t);
  const past = Date.now() - 70 * DAY_MS;
  const month = new Date(past).toISOString().slice(0, 7).replace('-', '_');
  await w.clock.set(new Date(past));
  await w.db`select runledger.ensure_partitions()`;
  await runOne({ id: newId(past) });
  await seal(w.web);
  await runOne({ id: newId(past) });
  await seal(w.web);
  await w.clock.set(new Date());
  await detachMonth(w.db, month, 'ada@console');
  const [row] = await w.db<{ facts: Record<string, unknown> }[]>`
    select facts from runledger.events where type = 'log.detached'`;
  const { partition, events, leaves_sha256 } = row!.facts;
  const allowed = `detached ${partition} ${events} ${leaves_sha256}\n`;

  const before = await exported();
  const records = await recordsOf(before);
  t.ok(records.filter(({ kind }) => kind === 'gap').length > 1, 'a month in several records');
  const unsealed = await check(before, allowed);
  t.same(unsealed.problems, [], 'the event log.detached is behind the sketch');
  t.ok(unsealed.proven);
  t.same(unsealed.detached, [`events_${month}`]);

  const ours = await repair(w.db, key, { reason: 'a test', operator: 'ada@console' });
  await runOne();
  await seal(w.web);
  const sealed = await check(await exported(), allowed);
  t.same(sealed.problems, []);
  t.match(sealed.repaired, [`${ours.origin} over ${ours.size} events: a test (ada@console)`]);

  // The file lacks an event that the sketch has: here, the one that says what is gone.
  const { problems } = await check(
    await written(
      records.filter(
        ({ kind, body }) => kind !== 'entry' || parseEntry(body).type !== 'log.detached',
      ),
    ),
    allowed,
  );
  t.ok(problems.some((problem) => / version 1, which the file lacks$/.test(problem)));
  t.match(problems.at(-1), /are gone, and no event says that it was detached/);

  const names = ['events_9999_01', 'events_2020_13', 'x_2020_01', `events_${month}x`];
  const gaps = names.map((name) => ({
    kind: 'gap' as const,
    body: Buffer.concat(gapBody(name, Buffer.alloc(32))),
  }));
  const made_up = await check(await written([...records, ...gaps]), allowed);
  const lines = names.map(
    (name) => `events of ${name} are gone, and no month of this name can have been detached`,
  );
  t.same(made_up.problems, lines, 'nothing is kept of names that cannot be');
});

t.test(
  'facts that have a name twice are no facts, because readers differ in which one counts',
  async (t) => {
    const { w, runOne, exported, written } = await scene(t);
    await seal(w.web);
    await runOne();
    const records = await recordsOf(await exported());
    const named = async (change: (facts: string) => string) => {
      const path = await written(
        records.map(({ kind, body }) => {
          if (kind !== 'entry') return { kind, body };
          const entry = parseEntry(body);
          return { kind, body: entryOf({ ...entry, facts: change(entry.facts) }) };
        }),
      );
      return (await check(path)).problems.filter((line) => line.startsWith('the facts of'));
    };
    t.same(await named((facts) => facts), []);
    const [line] = await named((facts) =>
      facts.replace('"verdict": "AC"', '"verdict": "WA", "verdict": "AC"'),
    );
    t.match(line, /\(submission\.completed\) are not of their schema/);
  },
);

t.test('what is sealed and not cosigned is named, and a problem after a day', async (t) => {
  for (const age_days of [0, 3]) {
    const { w, runOne, exported } = await scene(t);
    const begin = new Date(Date.now() - age_days * DAY_MS - 60_000);
    await w.clock.set(begin);
    await runOne();
    await seal(w.web);
    const accepted = (await lastCheckpoint(w.web))!;
    const { text } = parseNote(accepted.note);
    for (const witness of witnesses)
      await putCosignature(w.web, accepted, witness.verifier, witness.sign(text));
    const trust = { policy, keys: [], removals: null, kept: null };
    const looks = async () => ({
      live: await verify(w.db, { ...trust, live: true }),
      offline: await verify(w.db, { ...trust, live: false }),
      file: await verifyFile(await exported(), trust),
    });
    for (const report of Object.values(await looks())) {
      t.equal(report.unaccepted, null);
      t.same(report.unchecked, []);
    }

    const since = new Date(begin.getTime() + 1000);
    await w.clock.set(since);
    await runOne();
    await seal(w.web);
    await w.clock.set(new Date(since.getTime() + 1000));
    await runOne();
    const { live, offline, file } = await looks();
    const leaves = live.sealed - accepted.size;
    t.ok(leaves > 0);
    for (const report of [live, offline, file])
      t.same(report.unaccepted, { leaves, oldest_at: since });
    const line = `${leaves} leaves since ${since.toISOString()}, which are sealed, and which the policy has not accepted`;
    if (age_days === 0) t.match(file, { well: true, proven: { size: accepted.size } });
    t.same([live.unchecked, offline.unchecked, file.unchecked], [[], [line], [line]]);
    const named = (problems: readonly string[]) =>
      problems.filter((problem) => /policy accepts/.test(problem));
    t.same(named(offline.problems), []);
    matchLists(
      t,
      named(live.problems),
      age_days === 0
        ? []
        : [
            new RegExp(
              `^${leaves} leaves are sealed behind the last .* and one is of \\d days ago: `,
            ),
          ],
    );
  }
});

t.test('a made-up file with many claims and many ids is checked in no time', async (t) => {
  const { written } = await scene(t);
  const MANY = 30_000;
  const months = ['events_2025_01', 'events_2025_02'];
  const at_us = BigInt(usOf(new Date()));
  const entry = (stream: string, version: number, type: string, facts: object, seq: number) => ({
    kind: 'entry' as const,
    body: entryOf({
      ...{ stream, version, type, schema: 1, at_us, generation: 1, xid: 1n, seq: BigInt(seq) },
      facts: JSON.stringify(facts),
    }),
  });
  const claims = Array.from({ length: MANY }, (_, n) => {
    const facts = { partition: months[n % 2], events: 0, sketch: 'x' };
    return entry('f0000000-0000-4000-8000-000000000001', n + 1, 'log.detached', facts, n);
  });
  // An id of its own for each of the ranges of time that verify keeps.
  const events = Array.from({ length: MANY }, (_, n) =>
    entry(newId(Date.now() - n * 2 ** 24), 1, 'execution.refused', {}, MANY + n),
  );
  const path = await written([...claims, ...events]);
  const before = process.cpuUsage();
  const { problems, problem_counts, detached } = await check(path);
  const { user } = process.cpuUsage(before);
  t.ok(user < 30e6, `${user / 1e6} s of CPU time`);
  t.same(detached, months);
  const back = problems.filter((problem) => / was detached, and its stream /.test(problem));
  // A range of 4.66 hours can lie in two months.
  t.ok(back.length > 0 && back.length <= problem_counts['removals']!);
  for (const month of months)
    t.ok(problems.includes(`${month} was detached ${MANY / 2} times`), month);
});

t.test('cosignatures of strangers take the place of no witness', async (t) => {
  const { w, runOne, exported } = await scene(t);
  await runOne();
  await seal(w.web);
  const last = (await lastCheckpoint(w.web))!;
  const { text } = parseNote(last.note);
  const cosign = (signer: NoteSigner) =>
    putCosignature(w.web, last, signer.verifier, signer.sign(text));
  const stranger = (name: string, n: number) =>
    new NoteSigner(name, WITNESS_KEY, Buffer.alloc(32, n));
  const trust = { policy, keys: [], removals: null, kept: null };
  const proven = async (path: string) => {
    const { problems, proven } = await verifyFile(path, trust);
    t.same(problems, []);
    t.match(proven, { size: last.size, witnesses: ['north', 'south'] });
  };
  const keys = witnesses.map(({ verifier }) => verifier);
  for (const witness of witnesses) await cosign(witness);
  await proven(await exported());
  await cosign(stranger('a', 1));
  await proven(await exported(keys));
  const signatures = async (path: string) => {
    const note = (await recordsOf(path)).find(({ kind }) => kind === 'checkpoint')!;
    return parseNote(note.body.toString()).signatures.map(({ name }) => name);
  };
  t.same(await signatures(await exported()), [last.origin, 'a', 'north', 'south']);
  t.same(await signatures(await exported(keys)), [last.origin, 'north', 'south', 'a']);

  // The owner can store more than the login of web, and longer ones.
  await w.db`alter table runledger.cosignatures drop constraint short`;
  const insert = (signer: NoteSigner) => {
    const signature = signer.sign(text);
    return w.db`
      insert into runledger.cosignatures values (${last.origin}, ${last.size}, ${witnessName(signer.verifier)},
        ${cosignedAt(signature)}, ${signatureLine(signature)})`;
  };
  for (let n = 0; n < 70; n++) await insert(stranger(`a${n}`, 100 + n));
  const full = await exported(keys);
  t.equal((await signatures(full)).length, 64);
  await proven(full);
  matchLists(t, (await verifyFile(await exported(), trust)).problems, [
    /policy accepts no checkpoint/,
  ]);
  await insert(stranger('b'.repeat(70_000), 2));
  await insert(stranger(`${'a'.repeat(65_000)}`, 3));
  await proven(await exported(keys));
});
