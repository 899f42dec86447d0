import { randomBytes } from 'node:crypto';

const RANDOM_BYTES = 10;
const DIGITS = 2 * RANDOM_BYTES;

/** UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits. Ids are in the order of their creation, by milliseconds. */
export function uuidv7(at_ms: number, random: Uint8Array): string {
  if (random.length < RANDOM_BYTES) throw new RangeError('a UUIDv7 needs 10 random bytes');
  return withDigits(at_ms, Buffer.from(random).toString('hex'));
}

/** The version and the variant take the place of six random bits. */
function withDigits(at_ms: number, random: string): string {
  const time = at_ms.toString(16).padStart(12, '0');
  const variant = '89ab'[Number.parseInt(random[4]!, 16) & 3];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(1, 4)}-${variant}${random.slice(5, 8)}-${random.slice(8, DIGITS)}`;
}

/** Random hex digits for many ids: a call for each would take longer than all the rest of an id. */
let pool = '';
let used = 0;

/** A UUIDv7 of this moment. */
export function newId(): string {
  if (used === pool.length) {
    pool = randomBytes(256 * RANDOM_BYTES).toString('hex');
    used = 0;
  }
  used += DIGITS;
  return withDigits(Date.now(), pool.slice(used - DIGITS, used));
}
