/**
 * Are the bytes of test sets the ones that the log commits to? The event of a set has the digest of its manifest, which
 * verify_payloads.ts checks. The manifest names each content by its SHA-256, which is computed here from the stored pieces.
 * So a changed byte is named, wherever it is.
 *
 * A set that was deleted has no bytes. Its event says by which key of its account; or, if an operator deleted it, since when
 * no submission had used it. That must be true, of all submissions: none uses a set that is gone. And the set must be older.
 */
import { createHash, type Hash } from 'node:crypto';
import type { Db } from '../db.ts';
import { timeText } from '../domain/clocks.ts';
import { contentsOf, setOf } from '../judging/manifest.ts';
import type { FileRef } from '../judging/test_set.ts';
import { readEntries } from './entries.ts';
import { type LogClaim, uuidText } from './entry_check.ts';
import type { Problems } from './problems.ts';
import { PERMANENT } from './stream_kinds.ts';

export type TestSetReport = { readonly sets: number; readonly contents: number };

export async function checkTestSets(
  db: Db,
  claims: readonly LogClaim[],
  problems: Problems,
): Promise<TestSetReport> {
  const sets = await db<{ id: string }[]>`
    select p.stream as id from runledger.payloads p where p.stream >= ${PERMANENT} and p.kind = 'manifest' order by 1`;
  for (const { id } of sets) await checkManifest(db, id, problems);
  const contents = await checkContents(db, problems);
  await checkStrays(db, problems);
  await checkOwners(db, problems);
  await checkDeletions(db, claims, problems);
  return { sets: sets.length, contents };
}

/** Every content that the manifest names is stored, in the size that it says. */
async function checkManifest(db: Db, id: string, problems: Problems): Promise<void> {
  const [row] = await db<{ bytes: Buffer }[]>`
    select p.bytes from runledger.payloads p where p.stream = ${id} and p.kind = 'manifest'`;
  const files = row ? filesOf(row.bytes) : null;
  if (files === null) {
    problems.add('bytes', `test set ${id}: its manifest cannot be read`);
    return;
  }
  const stored = await db<{ sha256: string; size: string }[]>`
    select encode(c.sha256, 'hex') as sha256, c.size from runledger.contents c
    where c.stored and c.sha256 = any (
      select decode(x, 'hex') from unnest(${`{${files.map(({ sha256 }) => sha256).join(',')}}`}::text::text[]) x)`;
  const sizes = new Map(stored.map(({ sha256, size }) => [sha256, Number(size)]));
  for (const { sha256, size } of files) {
    const found = sizes.get(sha256);
    if (found === undefined)
      problems.add('bytes', `test set ${id}: its content ${sha256} is missing`);
    else if (found !== size)
      problems.add(
        'bytes',
        `test set ${id}: its content ${sha256} has ${found} bytes, and the manifest says ${size}`,
      );
  }
}

function filesOf(manifest: Uint8Array): FileRef[] | null {
  try {
    const files = contentsOf(setOf(manifest));
    return files.every(({ sha256 }) => /^[0-9a-f]{64}$/.test(sha256)) ? files : null;
  } catch {
    return null;
  }
}

type Content = {
  readonly id: string;
  readonly sha256: string;
  readonly size: number;
  readonly hash: Hash;
  seen: number;
  pieces: number;
  /** The numbers of its pieces are 0, 1, 2 and so on. */
  in_order: boolean;
};

/** The bytes of every stored content, in one reading; memory holds a piece. */
async function checkContents(db: Db, problems: Problems): Promise<number> {
  const damaged: Content[] = [];
  let count = 0;
  let now = null as Content | null;
  const end = (content: Content | null) => {
    if (content === null) return;
    const { hash, sha256, seen, size, in_order } = content;
    count++;
    if (hash.digest('hex') !== sha256 || seen !== size || !in_order) damaged.push(content);
  };
  const query = `select c.id, c.sha256, c.size, p.n, p.bytes
    from runledger.contents c left join runledger.content_pieces p on p.content_id = c.id
    where c.stored order by c.id, p.n`;
  for await (const rows of readEntries(db, query))
    for (const row of rows) {
      const { id, sha256, size, piece } = pieceOf(row);
      if (now?.id !== id) {
        end(now);
        now = { id, sha256, size, hash: createHash('sha256'), seen: 0, pieces: 0, in_order: true };
      }
      if (piece === null) continue;
      now.in_order &&= piece.n === now.pieces;
      now.hash.update(piece.bytes);
      now.seen += piece.bytes.length;
      now.pieces++;
    }
  end(now);
  for (const content of damaged) await reportDamage(db, content, problems);
  return count;
}

async function reportDamage(db: Db, { id, sha256 }: Content, problems: Problems): Promise<void> {
  const sets = await db<{ id: string }[]>`
    select r.test_set_id as id from runledger.test_set_contents r where r.content_id = ${id} order by 1`;
  const [first, ...more] = sets.map((set) => set.id);
  const others = more.length > 0 ? `, and of ${more.length} more` : '';
  const whose = first === undefined ? 'of no test set' : `of test set ${first}${others}`;
  problems.add('bytes', `content ${sha256}, ${whose}, does not have the bytes of that hash`);
}

/**
 * A row of checkContents' query, as binary COPY has it: each column with its length before it; -1 is null. The service
 * never stores a null hash or size.
 */
function pieceOf(row: Buffer) {
  const columns: (Buffer | null)[] = [];
  for (let at = 2; at < row.length; ) {
    const length = row.readInt32BE(at);
    columns.push(length < 0 ? null : row.subarray(at + 4, at + 4 + length));
    at += 4 + Math.max(length, 0);
  }
  const [id, sha256, size, n, bytes] = columns;
  return {
    id: uuidText(id!),
    sha256: sha256?.toString('hex') ?? '(without a hash)',
    size: size ? Number(size.readBigInt64BE()) : -1,
    piece: n && bytes ? { n: n.readInt32BE(), bytes } : null,
  };
}

/** Stored contents that no set needs, and pieces of no content. What is arriving is neither. */
async function checkStrays(db: Db, problems: Problems): Promise<void> {
  const unneeded = await db<{ sha256: string }[]>`
    select encode(c.sha256, 'hex') as sha256 from runledger.contents c
    where c.stored and not exists (select from runledger.test_set_contents r where r.content_id = c.id) order by 1`;
  for (const { sha256 } of unneeded)
    problems.add('bytes', `content ${sha256} should not be there: no test set needs it`);
  const strays = await db<{ id: string }[]>`
    select distinct p.content_id as id from runledger.content_pieces p
    where not exists (select from runledger.contents c where c.id = p.content_id) order by 1`;
  for (const { id } of strays) problems.add('bytes', `content_pieces: ${id} is of no content`);
}

/** Of accounts that delete their own sets. An account can do so any number of times, so the events are read again here. */
async function checkOwners(db: Db, problems: Problems): Promise<void> {
  const foreign = await db<{ id: string }[]>`
    select d.stream as id from runledger.events d
    where d.stream >= ${PERMANENT} and d.type = 'test_set.deleted' and d.facts ? 'key_id' and not exists (
      select from runledger.events c join runledger.keys k on k.account_id::text = c.facts ->> 'account_id'
      where c.stream = d.stream and c.version = 1
        and k.id = case when d.facts ->> 'key_id' ~* ${UUID} then (d.facts ->> 'key_id')::uuid end)
    order by d.stream, d.version`;
  for (const { id } of foreign)
    problems.add('removals', `test set ${id} was deleted by a key of another account`);
}

const UUID = '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';

/** Of operators. */
async function checkDeletions(
  db: Db,
  claims: readonly LogClaim[],
  problems: Problems,
): Promise<void> {
  for (const { stream, type, at, facts } of claims) {
    if (type !== 'test_set.deleted') continue;
    const unused_since = facts['unused_since'] as string | undefined;
    if (unused_since === undefined) continue;
    const [used] = await db<{ id: string }[]>`
      select s.id from runledger.submissions s
      where s.test_set = ${stream} and s.created_at >= ${unused_since}::text::timestamptz limit 1`;
    if (used)
      problems.add(
        'removals',
        `test set ${stream} was deleted at ${timeText(at)} because nothing had used it since ${unused_since}, and submission ${used.id} had`,
      );
    if (!(await existedBefore(db, stream, unused_since)))
      problems.add(
        'removals',
        `test set ${stream} was deleted at ${timeText(at)} because nothing had used it since ${unused_since}, and it was created later`,
      );
  }
}

async function existedBefore(db: Db, set: string, time: string): Promise<boolean> {
  const [row] = await db`
    select from runledger.events e
    where e.stream = ${set} and e.version = 1 and e.at < ${time}::text::timestamptz`;
  return row !== undefined;
}
