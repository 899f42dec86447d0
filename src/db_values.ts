/**
 * How bytes and times are read from what PostgreSQL prints. postgres.js reads any text: bytes that are printed in another way
 * than `\x…` would become other bytes, and so another program would run. Here such a text is an error of its statement.
 */

const BYTEA = 17;
const TIMES = [1082, 1114, 1184];

/** As the option `types` of postgres.js. */
export const VALUE_TYPES = {
  bytea: {
    to: BYTEA,
    from: [BYTEA],
    serialize: (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString('hex')}`,
    parse: parseBytes,
  },
  date: {
    to: 1184,
    from: TIMES,
    serialize: (time: Date | string | number) =>
      (time instanceof Date ? time : new Date(time)).toISOString(),
    parse: parseTime,
  },
};

function parseBytes(text: string): Buffer {
  const bytes = Buffer.from(text.startsWith('\\x') ? text.slice(2) : '', 'hex');
  // Buffer.from stops at the first pair that is no hex.
  if (bytes.length * 2 + 2 !== text.length)
    throw new Error('PostgreSQL printed bytes that are not hex: bytea_output must be hex');
  return bytes;
}

/** A date alone, or with a time and the offset of its zone. What no Date can hold is an invalid one, and infinity is. */
const ISO =
  /^(?:-?infinity|\d{4,6}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::\d\d){0,2})?)?(?: BC)?)$/;

function parseTime(text: string): Date {
  if (!ISO.test(text)) throw new Error(`PostgreSQL printed a time that is not ISO: ${text}`);
  return new Date(text);
}
