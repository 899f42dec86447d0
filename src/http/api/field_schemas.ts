/**
 * Schemas of values that several fields of a request have: texts, base64, arguments, limits. Where JSON Schema has no words
 * for a rule, the rule is a check here and a sentence in the description.
 */
import * as v from 'valibot';
import { type Bound, REQUEST_LIMITS, type RequestLimitName } from '../../domain/limits.ts';
import { DEPTH_LIMIT } from '../wire/json_text.ts';

export const TEXT_LIMIT_BYTES = 65_536;
export const ARGS_LIMIT = 64;
export const ARGS_LIMIT_BYTES = 4_096;

export const count = (limit: number) => limit.toLocaleString('en');

/** Bounds of the limits that a request may set, by the names and in the units of the API. */
export type RequestBounds = Record<RequestLimitName, Bound>;

export const LONE_SURROGATE =
  'has half of a surrogate pair, which is not a Unicode character: send the whole pair';

export const isWellFormed = (value: string): boolean => value.isWellFormed();

export function text(description: string, most = TEXT_LIMIT_BYTES) {
  return v.pipe(
    v.string('must be a string'),
    v.check(isWellFormed, LONE_SURROGATE),
    v.maxBytes(most, (issue) => `is ${issue.received} bytes of UTF-8; the most is ${most}`),
    // JSON Schema counts characters; a text never has more of them than bytes.
    v.metadata({ description, maxLength: most }),
  );
}

export function base64(most: number, description: string) {
  return v.pipe(
    v.string('must be a string'),
    v.check(isBase64, 'must be base64 (RFC 4648, with padding)'),
    v.check((value) => base64Bytes(value) <= most, `decodes to more than ${most} bytes`),
    v.metadata({
      description,
      maxLength: Math.ceil(most / 3) * 4,
      pattern: BASE64_PATTERN,
      contentEncoding: 'base64',
    }),
  );
}

export function argsSchema() {
  return v.pipe(
    v.array(
      v.pipe(
        v.string('must be a string'),
        v.check(isWellFormed, LONE_SURROGATE),
        v.check((value) => !value.includes('\0'), 'has a NUL, which no argument can have'),
        // Where `$` also matches before a final line break the pattern still holds: a line break is not a NUL.
        v.metadata({ pattern: '^[^\\u0000]*$' }),
      ),
      'must be a list of strings',
    ),
    v.maxLength(ARGS_LIMIT, `has more than ${ARGS_LIMIT} items`),
    v.check(
      (items) => items.reduce((sum, item) => sum + Buffer.byteLength(item), 0) <= ARGS_LIMIT_BYTES,
      `is more than ${ARGS_LIMIT_BYTES} bytes of UTF-8 in all`,
    ),
    v.description(
      `Arguments of the program: at most ${ARGS_LIMIT}, and ${count(ARGS_LIMIT_BYTES)} bytes of UTF-8 in all, without NUL.`,
    ),
  );
}

type LimitEntries = Record<RequestLimitName, Optional<v.GenericSchema<number>>>;

export function limitsSchema(bounds: RequestBounds) {
  const entries = REQUEST_LIMITS.map(({ name, unit, description }) => {
    const number = unit === 'ms' ? seconds(bounds[name]) : whole(bounds[name]);
    return [name, optional(v.pipe(number, v.description(description)))];
  });
  return object(Object.fromEntries(entries) as LimitEntries);
}

function seconds({ min, max }: Bound) {
  return v.pipe(
    v.number('must be a number of seconds'),
    v.minValue(min, `must be at least ${min} seconds`),
    v.maxValue(max, `must be at most ${max} seconds here`),
  );
}

function whole({ min, max }: Bound) {
  return v.pipe(
    v.number('must be a whole number'),
    v.integer('must be a whole number'),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max} here`),
  );
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** The same and the length as one pattern, for JSON Schema; on a long text it takes five times as long. */
const BASE64_PATTERN = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$';

function isBase64(value: string): boolean {
  return value.length % 4 === 0 && BASE64.test(value);
}

export function base64Bytes(value: string): number {
  const padding = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0;
  return (value.length / 4) * 3 - padding;
}

type Optional<S extends v.GenericSchema> = v.ExactOptionalSchema<
  v.NullableSchema<S, undefined>,
  undefined
>;

/** A field that may be absent. Null is the same as absent, because many clients send it for a value that they do not have. */
export function optional<S extends v.GenericSchema>(schema: S): Optional<S> {
  return v.exactOptional(v.nullable(schema));
}

/** The type of a value whose optional fields are absent where they were null. */
export type WithoutNulls<T> = T extends readonly (infer Item)[]
  ? WithoutNulls<Item>[]
  : T extends object
    ? { [Name in keyof T]: WithoutNulls<Exclude<T[Name], null>> }
    : T;

/** Removes each field that is null, and returns the same value: no field of a request has null as its value. */
export function withoutNulls<T>(value: T, depth = 0): WithoutNulls<T> {
  // A value that nests deeper has an error already.
  if (typeof value === 'object' && value !== null && depth < DEPTH_LIMIT) {
    const fields = value as Record<string, unknown>;
    for (const name of Object.keys(fields)) {
      if (fields[name] === null && !Array.isArray(value)) delete fields[name];
      else withoutNulls(fields[name], depth + 1);
    }
  }
  return value as WithoutNulls<T>;
}

export const notAField = (of: 'request' | 'object', names: string): string =>
  `is not a field of this ${of}; the fields are ${names}`;

/** Its errors name what is missing, and the first unknown name (parse_submission.ts names all of them). */
export function object<E extends v.ObjectEntries>(entries: E) {
  const names = Object.keys(entries).join(', ');
  return v.strictObject(entries, (issue: v.StrictObjectIssue) => {
    if (issue.expected === 'never') return notAField('object', names);
    return issue.path === undefined ? `must be an object of ${names}` : 'is required';
  });
}
