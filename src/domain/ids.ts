import { randomFillSync } from 'node:crypto';

/** UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits. Ids are in the order of their creation, by milliseconds. */
export function uuidv7(at_ms: number, random: Uint8Array): string {
  if (random.length < 10) throw new RangeError('a UUIDv7 needs 10 random bytes');
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(at_ms, 0, 6);
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const ID_BYTES = 10;
/** Random bytes for many ids: a call for each would take longer than all the rest of an id. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** A UUIDv7 of this moment. */
export function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return uuidv7(Date.now(), pool.subarray(used - ID_BYTES, used));
}
