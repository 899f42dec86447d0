/** Parsers for the values of variables. Each message completes a sentence that begins with the variable's name. */
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { isKeyName, LOG_KEY, parseKey, type VerifierKey, WITNESS_KEY } from '../proof/note.ts';
import { canBeNamed, refusalOf, undecodablePart } from './database_url.ts';

export const text = (pattern: RegExp, message: string) =>
  v.pipe(v.string(), v.regex(pattern, message));

export const choice = <const T extends readonly string[]>(...values: T) =>
  v.picklist(values, `must be one of ${values.join(', ')}`);

export const whole = (min: number, max: number) => {
  const message = `must be a whole number from ${min} to ${max}`;
  return v.pipe(
    v.string(),
    v.regex(/^\d{1,15}$/, message),
    v.transform(Number),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
};

export const port = whole(0, 65_535);

export const onOff = v.pipe(
  v.picklist(['on', 'off', 'true', 'false', '1', '0'], 'must be on or off'),
  v.transform((word) => word === 'on' || word === 'true' || word === '1'),
);

const BYTE_UNITS: Record<string, number> = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

export const bytes = (min: number, max: number) => {
  const message = `must be a size from ${min} to ${max} bytes, such as 65536, 64KiB, 256MiB or 1GiB`;
  return v.pipe(
    v.string(),
    v.regex(/^\d{1,15}(KiB|MiB|GiB)?$/, message),
    v.transform((word) => Number.parseInt(word, 10) * BYTE_UNITS[word.replace(/^\d+/, '')]!),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
};

const TIME_UNITS: Record<string, number> = { ms: 1, s: 1e3, min: 6e4, h: 36e5, d: 864e5 };

export const durationMs = (word: string): number | null => {
  const parts = /^(\d{1,12})(ms|s|min|h|d)$/.exec(word);
  return parts ? Number(parts[1]) * TIME_UNITS[parts[2]!]! : null;
};

const spell = (ms: number) => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);

export const duration = (min_ms: number, max_ms: number) => {
  const message = `must be a time from ${spell(min_ms)} to ${spell(max_ms)}, such as 500ms, 30s, 5min, 24h or 7d`;
  return v.pipe(
    v.string(),
    v.transform(durationMs),
    v.number(message),
    v.minValue(min_ms, message),
    v.maxValue(max_ms, message),
  );
};

const DURATIONS =
  'must be at most 20 times from 1ms to 7d with commas between them, such as 5s,5min,2h';

export const durations = v.pipe(
  v.string(),
  v.transform((word) => word.split(',').map((item) => durationMs(item.trim()))),
  v.array(v.pipe(v.number(DURATIONS), v.minValue(1, DURATIONS), v.maxValue(7 * 864e5, DURATIONS))),
  v.maxLength(20, DURATIONS),
);

/** `aliases`: of a value that has another name elsewhere. */
export const list = <const T extends readonly string[]>(
  values: T,
  aliases: ReadonlyMap<string, string> = new Map(),
) => {
  const problemOf = (item: string) =>
    aliases.has(item)
      ? `must have the name ${aliases.get(item)}`
      : `must be one of ${values.join(', ')}`;
  return v.pipe(
    v.string(),
    v.transform((word) => word.split(',').map((item) => item.trim())),
    v.array(v.picklist(values, ({ input }) => problemOf(String(input)))),
    v.transform((words) => [...new Set(words)]),
  );
};

/** What is wrong with the address of a service, for a client of it; null where nothing is. */
export function serverProblem(word: string): string | null {
  if (!/^https?:\/\/\S+$/.test(word) || !URL.canParse(word))
    return 'must be an address that begins with http:// or https://';
  if (/[?#]/.test(word)) return 'must be an address without ? and #';
  return /\/api\/*$/.test(word) ? 'must be an address without /api at its end' : null;
}

export const serverAddress = v.pipe(
  v.string(),
  v.check(
    (word) => serverProblem(word) === null,
    ({ input }) => serverProblem(input)!,
  ),
);

export const postgresUrl = v.pipe(
  v.string(),
  v.check((word) => {
    if (!URL.canParse(word)) return false;
    return ['postgres:', 'postgresql:'].includes(new URL(word).protocol);
  }, 'must be an address such as postgres://user:password@host:5432/database'),
  v.check(
    (word) => !URL.canParse(word) || refusalOf(word) === null,
    ({ input }) => refusalOf(input)!,
  ),
  v.check(
    (word) => !URL.canParse(word) || undecodablePart(word) === null,
    ({ input }) => `has a % in its ${undecodablePart(input)} that encodes nothing: write % as %25`,
  ),
  v.check(
    (word) => !URL.canParse(word) || canBeNamed(word),
    'has a database with # or ? in its name, which graphile-worker cannot open: rename the database',
  ),
);

/** 32 bytes as 64 hex digits or as base64: the two forms that hosting platforms generate. */
const secretBytes = (word: string): Uint8Array | null => {
  if (/^[0-9a-fA-F]{64}$/.test(word)) return Buffer.from(word, 'hex');
  const decoded = Buffer.from(word, 'base64');
  const sameText = decoded.toString('base64').replace(/=+$/, '') === word.replace(/=+$/, '');
  return decoded.length === 32 && sameText ? decoded : null;
};

const SECRET =
  'must be 32 bytes as 64 hex digits or as base64 (`openssl rand -base64 32` makes them)';

export const secret = v.pipe(v.string(), v.transform(secretBytes), v.instance(Uint8Array, SECRET));

export type NamedKey = { readonly id: string; readonly bytes: Uint8Array };

const namedKey = (word: string): NamedKey | null => {
  const colon = word.indexOf(':');
  const key = secretBytes(word.slice(colon + 1));
  if (!key) return null;
  // A platform that generates the value cannot put an id before it, so the id then derives from the key.
  const id =
    colon === -1
      ? createHash('sha256').update(key).digest('hex').slice(0, 8)
      : word.slice(0, colon);
  return /^[A-Za-z0-9_-]{1,32}$/.test(id) ? { id, bytes: key } : null;
};

export const namedKeys = v.pipe(
  v.string(),
  v.transform((word) => word.split(',').map((item) => namedKey(item.trim()))),
  v.array(
    v.custom<NamedKey>(
      (key) => key !== null,
      'must be keys with commas between them, each id:BASE64 of 32 bytes; the first one encrypts',
    ),
  ),
  v.check(
    (keys) => new Set(keys.map((key) => key.id)).size === keys.length,
    'must not use one id for two keys',
  ),
);

export const logOrigin = v.pipe(
  v.string(),
  v.check(isKeyName, 'must be a name without spaces and plus signs, such as example.com/runledger'),
);

const logKey = (word: string): VerifierKey | null => {
  try {
    const key = parseKey(word);
    return key.type === LOG_KEY ? key : null;
  } catch {
    return null;
  }
};

export const verifierKeys = v.pipe(
  v.string(),
  v.transform((words) =>
    words
      .split(/[\s,]+/)
      .filter(Boolean)
      .map(logKey),
  ),
  v.array(
    v.custom<VerifierKey>(
      (key) => key !== null,
      'must be verifier keys of a log, NAME+ID+KEY each, with spaces or commas between them (`./runledger policy` prints them)',
    ),
  ),
);

export type WitnessAddress = {
  readonly key: VerifierKey;
  /** The submission prefix of c2sp.org/tlog-witness, without a slash at its end. */
  readonly url: string;
};

/** NAME+ID+KEY=URL; a key has no equals sign. */
function witnessAddress(word: string): WitnessAddress | null {
  const [, text, address] = /^([^=]+)=(https?:\/\/\S+)$/.exec(word) ?? [];
  if (!text || !address || !URL.canParse(address)) return null;
  const url = new URL(address);
  if (url.username || url.password || url.search || url.hash) return null;
  try {
    const key = parseKey(text);
    return key.type === WITNESS_KEY ? { key, url: address.replace(/\/+$/, '') } : null;
  } catch {
    return null;
  }
}

export const witnesses = v.pipe(
  v.string(),
  v.transform((words) =>
    words
      .split(/[\s,]+/)
      .filter(Boolean)
      .map(witnessAddress),
  ),
  v.array(
    v.custom<WitnessAddress>(
      (each) => each !== null,
      'must be witnesses with spaces or commas between them, each NAME+ID+KEY=URL (`./runledger witness --key` prints NAME+ID+KEY)',
    ),
  ),
  v.check(
    (all) => new Set(all.map(({ key }) => key.public_key.toString('hex'))).size === all.length,
    'must not name a key twice',
  ),
);
