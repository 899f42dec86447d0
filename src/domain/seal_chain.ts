/**
 * The chain of seals, as pure functions: from digests of events to a signed head.
 *
 *   leaf   SHA-256("runledger event 1\n" ‖ canonical bytes of one event); eventBytes below, runledger.event_leaf in SQL
 *   part   SHA-256(leaf ‖ leaf ‖ …): one window's events of one partition, in order of seq
 *   seal   SHA-256("runledger seal 1\n" ‖ hash of the seal before ‖ number ‖ window ‖ its parts): a chain
 *   head   the last seal in a few lines of text, signed with Ed25519 by a key that PostgreSQL never sees
 *
 * Each partition is hashed apart, so that the chain can still be checked after retention has detached one: its hashes are
 * taken from the seals, all others from the log. The head also signs the digest of a sketch (sketch.ts) of all sealed
 * events. With a head that was kept outside the database, a log with recomputed hashes can be distinguished from the real
 * one, and the sketch names the events that differ.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';

export type LogEvent = {
  stream: string;
  version: number;
  type: string;
  schema: number;
  /** Microseconds since 2000-01-01 UTC, as PostgreSQL counts them. */
  at_us: bigint;
  generation: number;
  xid: bigint;
  seq: bigint;
  /** As jsonb prints them. */
  facts: string;
};

/** The canonical bytes of an event. Integers are big endian; text is preceded by its length in bytes. */
export function eventBytes(event: LogEvent): Buffer {
  return Buffer.concat([
    Buffer.from(event.stream.replaceAll('-', ''), 'hex'),
    int(event.version, 4),
    text(event.type),
    int(event.schema, 2),
    int(event.at_us, 8),
    int(event.generation, 2),
    int(event.xid, 8),
    int(event.seq, 8),
    text(event.facts),
  ]);
}

export const leafOf = (event: LogEvent): Buffer => sha256('runledger event 1\n', eventBytes(event));

export type SealPart = { partition: string; count: bigint; hash: Uint8Array };

export type SealWindow = {
  number: bigint;
  generation: number;
  from_xid: bigint;
  to_xid: bigint;
};

/** The hash before the first seal. */
export const NO_HASH = new Uint8Array(32);

export function sealHash(
  before: Uint8Array,
  window: SealWindow,
  parts: readonly SealPart[],
): Buffer {
  return sha256(
    'runledger seal 1\n',
    before,
    int(window.number, 8),
    int(window.generation, 2),
    int(window.from_xid, 8),
    int(window.to_xid, 8),
    ...parts.flatMap(({ partition, count, hash }) => [text(partition), int(count, 8), hash]),
  );
}

export type Head = {
  number: bigint;
  /** Events sealed so far. */
  total: bigint;
  generation: number;
  to_xid: bigint;
  hash: Uint8Array;
  sketch_sha256: Uint8Array;
  sealed_at: Date;
};

/** The signed text: lines of words, which a person can read and openssl can check. */
export function headText(head: Head): string {
  return [
    'runledger head 1',
    `number ${head.number}`,
    `total ${head.total}`,
    `generation ${head.generation}`,
    `to_xid ${head.to_xid}`,
    `hash ${hex(head.hash)}`,
    `sketch ${hex(head.sketch_sha256)}`,
    `sealed_at ${head.sealed_at.toISOString()}`,
    '',
  ].join('\n');
}

/** The head as it is published. With it `verify --head` can tell a forged log from the real one. */
export type HeadFile = {
  format: 'runledger head 1';
  number: string;
  total: string;
  generation: number;
  to_xid: string;
  hash: string;
  sketch_sha256: string;
  sealed_at: string;
  /** Ed25519 over the text that `text` shows; null where no signing key was configured. */
  signature: string | null;
  signer: string | null;
  text: string;
  sketch: string;
};

/** PKCS #8 around the 32 bytes of an Ed25519 seed (RFC 8410). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');

export type Signer = {
  /** The public key, base64. */
  readonly name: string;
  sign(head: Head): Buffer;
};

export function createSigner(seed: Uint8Array): Signer {
  const key = createPrivateKey({
    key: Buffer.concat([PKCS8, seed]),
    format: 'der',
    type: 'pkcs8',
  });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return {
    name: spki.subarray(SPKI.length).toString('base64'),
    sign: (head) => sign(null, Buffer.from(headText(head)), key),
  };
}

export function isSignedBy(signer: string, head: Head, signature: Uint8Array): boolean {
  const raw = Buffer.from(signer, 'base64');
  if (raw.length !== 32) return false;
  const key: KeyObject = createPublicKey({
    key: Buffer.concat([SPKI, raw]),
    format: 'der',
    type: 'spki',
  });
  return verify(null, Buffer.from(headText(head)), key, signature);
}

export function sha256(...parts: (string | Uint8Array)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

function int(value: number | bigint, size: 2 | 4 | 8): Buffer {
  const bytes = Buffer.alloc(size);
  if (size === 8) bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(value)));
  else bytes.writeIntBE(Number(value), 0, size);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([int(bytes.length, 4), bytes]);
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
