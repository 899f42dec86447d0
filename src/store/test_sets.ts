/**
 * Stored test sets: an upload stores the contents that are not stored yet, in pieces, and then the set, all at once
 * (sql/functions/test_sets.sql). A content streams through: memory holds the pieces of one call.
 */
import { createHash, randomUUID } from 'node:crypto';
import { byteaArray, bytesArgument, type Db } from '../db.ts';
import type { LimitOverrides } from '../domain/limits.ts';
import type { Compare } from '../judging/compare.ts';
import { contentsOf, manifestOf } from '../judging/manifest.ts';
import type { FileRef, TestSet } from '../judging/test_set.ts';

/** Whose set it is, and by which key: part of every answer to a key (caller.ts). */
export type Owner = { readonly account_id: string; readonly key_id: string };

type Account = Pick<Owner, 'account_id'>;

export type StoredSet = {
  readonly id: string;
  readonly name: string;
  readonly tests: number;
  /** besides the root */
  readonly groups: number;
  /** of all contents */
  readonly bytes: number;
  /** of the list of its tests and files, which is stored beside them */
  readonly manifest_bytes: number;
  readonly limits: LimitOverrides;
  readonly compare: Compare;
  readonly scoring: TestSet['scoring'];
  readonly passes: number;
  /** the language of its checker and of its interactor */
  readonly checker: string | null;
  readonly interactor: string | null;
  /** of the manifest */
  readonly sha256: string;
  readonly created_at: Date;
};

export type NewTestSet = {
  readonly owner: Owner;
  readonly set: TestSet;
  /** Of the request; they become facts. */
  readonly request_id?: string | null;
  readonly traceparent?: string | null;
};

export type CreatedTestSet =
  | { readonly kind: 'created' | 'known'; readonly id: string; readonly sha256: string }
  | { readonly kind: 'unauthorized' };

export type FinishedUpload =
  | CreatedTestSet
  | { readonly kind: 'missing'; readonly sha256s: ReadonlySet<string> };

export type RemovedTestSet = 'removed' | 'in_use' | 'absent';

export type Upload = {
  /** Stores the content, if the account does not have it. Throws ContentDiffers if the bytes are not those of the file: then discard. */
  put(file: FileRef, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Stores the set. `missing`: these contents were neither put, nor are they stored any more; put them and try again. */
  finish(given: NewTestSet): Promise<FinishedUpload>;
  /** Deletes what was put, unless a set was made of it. */
  discard(): Promise<void>;
};

export type TestSets = {
  /** Those that no set of the account has. */
  missing(owner: Account, files: readonly FileRef[]): Promise<Set<string>>;
  upload(owner: Account): Upload;
  /** An upload as a whole. Only contents that no set of the account has are asked for. */
  create(
    given: NewTestSet & { contentOf(sha256: string): AsyncIterable<Uint8Array> },
  ): Promise<CreatedTestSet>;
  list(owner: Account): Promise<StoredSet[]>;
  /** Null: the account has no such set. */
  read(owner: Account, id: string): Promise<StoredSet | null>;
  /** in_use: a submission that has not ended needs it. */
  remove(
    owner: Owner,
    id: string,
    request?: Pick<NewTestSet, 'request_id' | 'traceparent'>,
  ): Promise<RemovedTestSet>;
};

/** The bytes that were handed over are not those of their hash. */
export class ContentDiffers extends Error {}

/** Of every piece but the last of its content. */
export const PIECE_BYTES = 256 * 1024;
/** One call stores so many bytes at most, of one content or of several. */
const CALL_BYTES = 256 * 1024;
/** Other uploads' sets may be deleted again and again, and contents with them. */
const ATTEMPTS = 5;

export function createTestSets(db: Db): TestSets {
  const missing: TestSets['missing'] = async ({ account_id }, files) => {
    const names = files.map(({ sha256 }) => Buffer.from(sha256, 'hex'));
    const rows = await db<{ sha256: Buffer }[]>`
      select sha256 from runledger.stored_contents(${account_id}, ${byteaArray(names)}::text::bytea[]) x(sha256)`;
    const stored = new Set(rows.map(({ sha256 }) => sha256.toString('hex')));
    return new Set(files.map(({ sha256 }) => sha256)).difference(stored);
  };
  const read = async (account_id: string, id: string | null): Promise<StoredSet[]> => {
    const rows = await db<SetRow[]>`select * from runledger.list_test_sets(${account_id}, ${id})`;
    return rows.map(storedSet);
  };
  return {
    missing,
    upload: (owner) => new PieceUpload(db, (files) => missing(owner, files)),
    async create({ contentOf, ...given }) {
      const files = contentsOf(given.set);
      const missingOf = (some: readonly FileRef[]) => missing(given.owner, some);
      const upload = new PieceUpload(db, missingOf);
      try {
        for (let attempt = 1; ; attempt++) {
          const needed = await missingOf(files);
          for (const file of files)
            if (needed.has(file.sha256)) await upload.send(file, contentOf(file.sha256));
          const created = await upload.finish(given);
          if (created.kind !== 'missing') return created;
          if (attempt === ATTEMPTS) throw new Error('contents of a test set go again and again');
        }
      } catch (error) {
        await upload.discard().catch(() => {});
        throw error;
      }
    },
    list: ({ account_id }) => read(account_id, null),
    async read({ account_id }, id) {
      return (await read(account_id, id))[0] ?? null;
    },
    async remove({ account_id, key_id }, id, request = {}) {
      const [row] = await db<{ outcome: RemovedTestSet }[]>`
        select runledger.remove_test_set(${account_id}, ${key_id}, ${id},
          ${JSON.stringify(requestFacts(request))}::text::jsonb) as outcome`;
      return row!.outcome;
    },
  };
}

type SetRow = {
  id: string;
  sha256: Buffer;
  summary: Omit<StoredSet, 'id' | 'sha256' | 'created_at' | 'manifest_bytes'>;
  created_at: Date;
  manifest_bytes: string;
};

const storedSet = ({ id, sha256, summary, created_at, manifest_bytes }: SetRow): StoredSet => ({
  id,
  ...summary,
  manifest_bytes: Number(manifest_bytes),
  sha256: sha256.toString('hex'),
  created_at,
});

const requestFacts = ({
  request_id,
  traceparent,
}: Pick<NewTestSet, 'request_id' | 'traceparent'>) => ({
  ...(request_id && { request_id }),
  ...(traceparent && { traceparent }),
});

type CreatedRow = {
  outcome: FinishedUpload['kind'];
  id: string;
  missing: Buffer[] | null;
};

type Piece = { id: string; n: number; bytes: Buffer };

type MissingOf = (files: readonly FileRef[]) => Promise<Set<string>>;

class PieceUpload implements Upload {
  readonly #db: Db;
  readonly #missing: MissingOf;
  /** The contents that were put, or began to be: their ids by their hashes. */
  readonly #put = new Map<string, string>();
  /** What the next call stores. */
  #begun: { id: string; sha256: string; size: number }[] = [];
  #pieces: Piece[] = [];
  #bytes = 0;

  constructor(db: Db, missing: MissingOf) {
    this.#db = db;
    this.#missing = missing;
  }

  async put(file: FileRef, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    if (this.#put.has(file.sha256)) return;
    if ((await this.#missing([file])).has(file.sha256)) await this.send(file, bytes);
  }

  /** For a content that the account is known not to have. */
  async send({ sha256, size }: FileRef, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const id = randomUUID();
    this.#put.set(sha256, id);
    this.#begun.push({ id, sha256, size });
    const hash = createHash('sha256');
    let n = 0;
    let seen = 0;
    for await (const piece of inPieces(bytes)) {
      hash.update(piece);
      seen += piece.length;
      if (seen > size) break;
      this.#pieces.push({ id, n, bytes: piece });
      this.#bytes += piece.length;
      n++;
      if (this.#bytes >= CALL_BYTES) await this.#store();
    }
    if (seen !== size || hash.digest('hex') !== sha256)
      throw new ContentDiffers(`the bytes of ${sha256} have another hash or size`);
  }

  async finish({ owner, set, ...request }: NewTestSet): Promise<FinishedUpload> {
    await this.#store();
    const files = contentsOf(set);
    const manifest = manifestOf(set);
    const facts = {
      tests: set.tests.length,
      groups: set.groups.filter(({ parent }) => parent !== null).length,
      files: { count: files.length, size_bytes: files.reduce((sum, { size }) => sum + size, 0) },
      ...requestFacts(request),
    };
    const arrived = [...this.#put.values()];
    const [row] = await this.#db<CreatedRow[]>`
      select * from runledger.create_test_set(${owner.account_id}, ${owner.key_id}, ${manifest.bytes},
        ${JSON.stringify(facts)}::text::jsonb,
        ${byteaArray(files.map(({ sha256 }) => Buffer.from(sha256, 'hex')))}::text::bytea[],
        ${`{${files.map(({ size }) => size).join(',')}}`}::text::bigint[],
        ${`{${arrived.join(',')}}`}::text::uuid[])`;
    const { outcome, id, missing } = row!;
    if (outcome === 'missing') {
      const sha256s = new Set(missing!.map((each) => each.toString('hex')));
      for (const each of sha256s) this.#put.delete(each);
      return { kind: outcome, sha256s };
    }
    this.#put.clear();
    if (outcome === 'unauthorized') return { kind: outcome };
    return { kind: outcome, id, sha256: manifest.sha256 };
  }

  async discard(): Promise<void> {
    const ids = [...this.#put.values()];
    this.#begun = [];
    this.#pieces = [];
    this.#bytes = 0;
    this.#put.clear();
    if (ids.length > 0)
      await this.#db`select runledger.drop_arrived(${`{${ids.join(',')}}`}::text::uuid[])`;
  }

  async #store(): Promise<void> {
    const [begun, pieces] = [this.#begun, this.#pieces];
    if (begun.length === 0 && pieces.length === 0) return;
    this.#begun = [];
    this.#pieces = [];
    this.#bytes = 0;
    const list = <T>(items: readonly T[], pick: (item: T) => string | number) =>
      `{${items.map(pick).join(',')}}`;
    await this.#db`
      select runledger.put_pieces(${list(begun, ({ id }) => id)}::text::uuid[],
        ${byteaArray(begun.map(({ sha256 }) => Buffer.from(sha256, 'hex')))}::text::bytea[],
        ${list(begun, ({ size }) => size)}::text::bigint[],
        ${list(pieces, ({ id }) => id)}::text::uuid[], ${list(pieces, ({ n }) => n)}::text::integer[],
        ${bytesArgument(
          this.#db,
          pieces.map(({ bytes }) => bytes),
        )})`;
  }
}

/** The same bytes, in pieces of PIECE_BYTES; only the last may be shorter, and none is empty. */
export async function* inPieces(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let waiting: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    let rest = chunk;
    while (length + rest.length >= PIECE_BYTES) {
      const taken = PIECE_BYTES - length;
      yield Buffer.concat([...waiting, rest.subarray(0, taken)]);
      rest = rest.subarray(taken);
      waiting = [];
      length = 0;
    }
    // A copy: the caller may use the chunk's memory again.
    if (rest.length > 0) waiting.push(rest.slice());
    length += rest.length;
  }
  if (length > 0) yield Buffer.concat(waiting);
}
