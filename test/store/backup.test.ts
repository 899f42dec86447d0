/** A backup, taken while the service runs, and what is restored from it. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { backUp, restore } from '../../src/store/backup.ts';
import { backUpInto } from '../../src/store/backup_folder.ts';
import { migrate } from '../../src/store/migrate.ts';
import { schemaOf } from '../../src/store/schema_version.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer, emptyDatabase } from '../support/database.ts';
import { seal } from './seal_now.ts';
import { contents } from './table_contents.ts';
import { alone } from './verified.ts';
import { outcome, start, submission, world } from './world.ts';

aloneOnItsServer();

const folder = await mkdtemp(join(tmpdir(), 'runledger-backup-'));
t.teardown(() => rm(folder, { recursive: true }));
const path = join(folder, 'one.backup');

const w = await world(t);
await w.tier('free', 0, 0);
const key = await w.key({ tier: 'free' });
const { submit } = w.submissions();
const more = async () => {
  const given = submission({ stdin: Buffer.from([0, 255, 10]), code: Buffer.alloc(60_000, 'x') });
  await submit({ secret_digest: key.digest, submission: given });
  return given.id;
};
const { executions } = await w.consumer();
const ids: string[] = [];
for (let n = 0; n < 20; n += 1) ids.push(await more());
await start(executions, ids[0]!);
await executions.complete({ submission_id: ids[0]!, attempt: 1, outcome: outcome() });
await seal(w.web);
await more();

t.test('what is restored is what was there, to the byte, and it verifies', async (t) => {
  const before = await contents(w.db);
  const done = await backUp(w.db, path);
  t.ok(done.tables > 30 && done.bytes > 5_000);
  await more();
  const { urls } = await emptyDatabase(t);
  await restore(urls.owner, path);
  const db = connect(urls.owner, { name: 'test', max: 2 });
  t.teardown(() => db.end());
  t.same(await contents(db), before, 'without what came after');
  const found = await verify(db, { policy: alone, live: false });
  t.same(found.problems, []);
  t.ok(found.proven, 'proven by the policy');
  const [sequence] =
    await db`select nextval('runledger.events_seq') > (select max(seq) from runledger.events) as beyond`;
  t.ok(sequence!['beyond']);
  await t.rejects(backUp(w.db, path), { message: /exists already/ });
  t.same(await readdir(folder), ['one.backup'], 'nothing beside it is left');
  await t.rejects(restore(urls.owner, path), { message: /^the database is not empty/ });
});

/** The file with other contents, and the right end. */
function changed(good: Buffer, change: (rows: string) => string): Buffer {
  const rows = good.subarray(0, good.lastIndexOf('{"sha256"')).toString('latin1');
  const bytes = Buffer.from(change(rows), 'latin1');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return gzipSync(Buffer.concat([bytes, Buffer.from(`${JSON.stringify({ sha256 })}\n`)]));
}

/** The text of a backup, whose table lacks its last column. */
function withoutLastColumn(text: string, table: string): string {
  const head = new RegExp(`\\{"table":"${table}","columns":\\[.*?\\]\\}\\n`).exec(text)!;
  const { columns } = JSON.parse(head[0]) as { columns: string[] };
  const bytes = Buffer.from(text.slice(head.index + head[0].length), 'latin1');
  // Few rows are one frame.
  const size = bytes.readUInt32BE(0);
  const rows = rowsWithoutLastField(bytes.subarray(4, 4 + size));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(rows.length);
  return [
    text.slice(0, head.index),
    `${JSON.stringify({ table, columns: columns.slice(0, -1) })}\n`,
    Buffer.concat([length, rows, bytes.subarray(4 + size)]).toString('latin1'),
  ].join('');
}

/** Of PostgreSQL's binary COPY: a head of 19 bytes, rows of fields that begin with their number, and -1. */
function rowsWithoutLastField(copy: Buffer): Buffer {
  const kept: Buffer[] = [copy.subarray(0, 19)];
  let at = 19;
  for (let fields = copy.readInt16BE(at); fields !== -1; fields = copy.readInt16BE(at)) {
    const count = Buffer.alloc(2);
    count.writeInt16BE(fields - 1);
    kept.push(count);
    at += 2;
    for (let field = 1; field <= fields; field += 1) {
      const end = at + 4 + Math.max(copy.readInt32BE(at), 0);
      if (field < fields) kept.push(copy.subarray(at, end));
      at = end;
    }
  }
  return Buffer.concat([...kept, copy.subarray(at)]);
}

t.test('a backup of an older version is brought to this one', async (t) => {
  const good = gunzipSync(await readFile(path));
  // As the version made it that had no retention: without its migration, those after it, and what they add.
  const older = join(folder, 'older.backup');
  const before = (text: string) =>
    ['runledger.consumers', 'runledger.gated', 'runledger.leases']
      .reduce(withoutLastColumn, text)
      .replace(/,"000014_[^\]]*(?=\])/, '')
      .replace(/\{"table":"runledger\.retention".*?\]\}\n.*?\0\0\0\0(?=\{"table")/s, '');
  await writeFile(older, changed(good, before));
  const { urls } = await emptyDatabase(t);
  const { applied } = await restore(urls.owner, older);
  const all = (await readdir('sql/migrations')).sort();
  t.same(
    applied,
    all.filter((name) => name >= '000014'),
  );
  const db = connect(urls.owner, { name: 'test', max: 2 });
  t.teardown(() => db.end());
  t.same((await verify(db, { policy: alone, live: false })).problems, []);
  const { 'runledger.retention': schedule, ...rest } = await contents(db);
  t.match(schedule, /^1 /, 'with the row that the migration stores');
  const { 'runledger.retention': _, ...same } = await contentsOf(path);
  t.same(rest, same);

  await writeFile(
    older,
    changed(good, (text) => text.replace(',"000014_', ',"000014_other_')),
  );
  const other = await emptyDatabase(t);
  await t.rejects(restore(other.urls.owner, older), {
    message:
      /^the backup is of another version \(it has 000014_other_\S+ where ours has 000014_\S+\)$/,
  });
  const newer = (text: string) => text.replace(/("\d{6}_[^\]]*")(?=\])/, '$1,"000099_later.sql"');
  await writeFile(older, changed(good, newer));
  await t.rejects(restore(other.urls.owner, older), {
    message: /\(it has 000099_later.sql where ours has nothing\)$/,
  });
});

/** What is in a database into which the backup was restored. */
async function contentsOf(backup: string): Promise<Record<string, string>> {
  const { urls } = await emptyDatabase(t);
  await restore(urls.owner, backup);
  const db = connect(urls.owner, { name: 'test', max: 2 });
  const found = await contents(db);
  await db.end();
  return found;
}

t.test('a file that is damaged or of another version restores nothing', async (t) => {
  const good = gunzipSync(await readFile(path));
  const { urls } = await emptyDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  const fails = async (bytes: Uint8Array, message: RegExp) => {
    const bad = join(folder, 'bad.backup');
    await writeFile(bad, bytes);
    await t.rejects(restore(urls.owner, bad), { message });
    const [row] = await db`select to_regclass('runledger.events') is null as none`;
    if (!row!['none']) t.same([...(await db`select * from runledger.events limit 1`)], []);
  };
  const edited = (from: string, to: string) => {
    const at = good.indexOf(from);
    t.not(at, -1, from);
    return gzipSync(
      Buffer.concat([good.subarray(0, at), Buffer.from(to), good.subarray(at + from.length)]),
    );
  };
  await fails(Buffer.from('hello'), /is not a backup$/);
  await fails(gzipSync(Buffer.from('{"format": "tar"}\n')), /is not a backup$/);
  await fails((await readFile(path)).subarray(0, -100), /^the backup is damaged/);
  await fails(gzipSync(good.subarray(0, -80)), /^the backup is damaged: it was cut off/);
  const inRows = good.indexOf('xxxxxxxx') + 4;
  await fails(gzipSync(good.subarray(0, inRows)), /^the backup is damaged: it was cut off/);
  await fails(edited('xxxxxxxx', 'xxxxyxxx'), /^the backup is damaged: its bytes were changed/);
  await fails(edited('000011_', '000099_'), /^the backup is of another version/);
  await fails(edited('"runledger.tiers"', '"runledger.thiefs"'), /a table that is not ours/);
  await fails(Buffer.concat([gzipSync(good), gzipSync(Buffer.from('x'))]), /there is more after/);
  const forged = (change: (rows: string) => string) => changed(good, change);
  const rows = /(\{"table":"runledger\.accounts".*?\]\}\n)/;
  const noCopy = forged((text) => text.replace(rows, '$1\0\0\0\x04abcd'));
  await fails(noCopy, /^the backup is damaged: /);
  const cutOff = forged((text) =>
    text.replace(
      /(\{"table":"runledger\.accounts".*?\]\}\n)\0.*?\0\0\0\0(\{"table)/s,
      '$1\0\0\0\x04PGCO\0\0\0\0$2',
    ),
  );
  await fails(cutOff, /^the backup is damaged: /);
  const month = (name: string) =>
    forged((text) => text.replace(/"runledger\.events_\d{4}_\d{2}"/, `"runledger.events${name}"`));
  await fails(month('_0000_01'), /^the backup is damaged: date field value out of range/);
  await fails(month('_1000_01'), /^the backup is damaged: empty range bound/);
  await fails(month('; drop table x'), /a table that is not ours/);
  const sequences = (value: string) =>
    forged((text) => text.replace(/\{"sequences":.*\}\n/, `{"sequences":${value}}\n`));
  await fails(sequences('null'), /^the backup is damaged: invalid input syntax for type bigint/);
  await fails(sequences('{}'), /^the backup is damaged: invalid input syntax for type bigint/);
  await t.rejects(
    migrate(urls.owner),
    { message: /^a restore into this database has not ended$/ },
    'no other log begins in its place',
  );
  // Its tables may all be there. Web would refuse each key with a 401.
  for (const role of ['owner', 'web', 'worker'] as const) {
    const login = connect(urls[role], { name: 'test', max: 1 });
    t.match(await schemaOf(login), {
      kind: 'older',
      message: 'a restore into this database has not ended',
      remedy: 'run `./runledger restore FILE` again',
    });
    await login.end();
  }

  await restore(urls.owner, path);
  await migrate(urls.owner);
  t.same(
    (await verify(db, { policy: alone, live: false })).problems,
    [],
    'the good one still can be',
  );
});

t.test('a folder keeps the newest backups, and everything that is none of its own', async (t) => {
  const backups = join(folder, 'deep', 'backups');
  const at = (time: string) =>
    backUpInto(w.db, backups, { keep: 2, now: new Date(`${time}:00.123Z`) });
  const name = (time: string) => `runledger-${time}00Z.backup`;
  const first = await at('2026-03-01T02:00');
  t.equal(first.path, join(backups, name('20260301T0200')));
  t.equal((await stat(backups)).mode & 0o777, 0o700);
  const [killed, running, own] = [
    `${first.path}.1`,
    `${first.path}.2`,
    join(backups, 'runledger.backup'),
  ];
  for (const file of [killed, running, own]) await writeFile(file, '');
  const an_hour_before = new Date('2026-03-02T00:59:00Z');
  await utimes(killed, an_hour_before, an_hour_before);
  await utimes(own, 0, 0);
  await writeFile(join(backups, name('20260302T0200')), '');
  await t.rejects(at('2026-03-02T02:00'), { message: /exists already/ });
  t.notOk((await readdir(backups)).includes(basename(killed)), 'the new one may need its room');
  await rm(join(backups, name('20260302T0200')));
  await at('2026-03-02T02:00');
  await t.rejects(at('2026-03-02T02:00'), { message: /exists already/ });
  t.ok((await readdir(backups)).includes(name('20260301T0200')), 'a failure removes nothing');
  const third = await at('2026-03-03T02:00');
  t.same(third.removed, [name('20260301T0200')]);
  t.same((await readdir(backups)).sort(), [
    'runledger-20260301T020000Z.backup.2',
    name('20260302T0200'),
    name('20260303T0200'),
    'runledger.backup',
  ]);
  const { urls } = await emptyDatabase(t);
  t.ok((await restore(urls.owner, third.path)).tables > 30);
});

t.test('a backup that was just made stays, whatever the time in the names of others', async (t) => {
  const backups = join(folder, 'ahead');
  await mkdir(backups);
  // A clock was ahead.
  const ahead = [1, 2].map((day) => `runledger-2031010${day}T020000Z.backup`);
  for (const name of ahead) await writeFile(join(backups, name), '');
  const at = (time: string, keep: number) =>
    backUpInto(w.db, backups, { keep, now: new Date(`${time}:00Z`) });
  const { path, removed } = await at('2026-03-01T02:00', 2);
  t.same(removed, [ahead[0]]);
  const last = await at('2026-03-02T02:00', 1);
  t.same(last.removed, [basename(path), ahead[1]]);
  t.same(await readdir(backups), [basename(last.path)]);
});

t.test('no write waits for a backup, and it has all of one moment', async (t) => {
  const beside = join(folder, 'beside.backup');
  let ended = false;
  const backing = backUp(w.db, beside).finally(() => {
    ended = true;
  });
  let written = 0;
  while (!ended) {
    await more();
    written += 1;
  }
  await backing;
  t.ok(written > 0);
  const { urls } = await emptyDatabase(t);
  await restore(urls.owner, beside);
  const db = connect(urls.owner, { name: 'test', max: 2 });
  t.teardown(() => db.end());
  t.same((await verify(db, { policy: alone, live: false })).problems, []);
});
