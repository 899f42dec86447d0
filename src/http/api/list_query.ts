/** The parameters of GET /api/submissions: from a query string to a page's question, or to every mistake in it. Pure. */
import { STATUS_NAMES } from '../../domain/statuses.ts';
import { VERDICT_NAMES } from '../../domain/verdicts.ts';
import { CANONICAL_NAMES } from '../../languages/common/registry.ts';
import type { ListPlace, ListQuery } from '../../store/lists.ts';
import { parseUuid } from '../wire/header_values.ts';
import type { FieldError } from '../wire/problem.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

export const PAGE_LIMIT = 200;
export const PAGE_DEFAULT = 50;

export const LIST_PARAMETERS = [
  'status',
  'verdict',
  'language',
  'test_set',
  'from',
  'to',
  'limit',
  'after',
];

/** A name; or what is wrong with its value. */
type Read<T> = (text: string) => T | { problem: string };

/** `known`: every parameter of the caller's address. */
export function readListQuery(
  query: URLSearchParams,
  errors: FieldError[],
  known: readonly string[] = LIST_PARAMETERS,
): ListQuery {
  rejectUnknownParameters(query, known, errors);
  const read = <T>(name: string, parse: Read<T>): T | null => {
    const given = query.getAll(name);
    if (given.length === 0) return null;
    const value = given.length > 1 ? { problem: 'is given more than once' } : parse(given[0]!);
    if (!isProblem(value)) return value;
    errors.push({ path: `?${name}`, message: value.problem });
    return null;
  };
  return {
    status: read('status', oneOf(STATUS_NAMES)),
    verdict: read('verdict', oneOf(VERDICT_NAMES)),
    language: read('language', languageOf),
    test_set: read('test_set', idOf),
    from: read('from', timeOf),
    to: read('to', timeOf),
    limit: read('limit', limitOf) ?? PAGE_DEFAULT,
    after: read('after', placeOf),
  };
}

const isProblem = (value: unknown): value is { problem: string } =>
  typeof value === 'object' && value !== null && 'problem' in value;

const oneOf =
  <T extends string>(names: readonly T[]): Read<T> =>
  (text) =>
    names.find((name) => name === text) ?? { problem: `must be one of ${names.join(', ')}` };

/** A name or an alias, also of a language that is off now. */
const languageOf: Read<string> = (text) =>
  CANONICAL_NAMES.get(text) ?? {
    problem: `must be one of ${[...CANONICAL_NAMES.keys()].join(', ')}`,
  };

const idOf: Read<string> = (text) => parseUuid(text) ?? { problem: 'must be a UUID' };

/** Without hour 24, which Date.parse() knows, and RFC 3339 does not. */
export const TIME =
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}([.][0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$/;

/** PostgreSQL has no year 0, and reads none of more than four digits in this form. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** In UTC, to the microsecond, as the database keeps times. Null: it is none, or none that the database knows. */
function parseTime(text: string): string | null {
  const found = TIME.exec(text);
  if (found === null) return null;
  const [, fraction = ''] = found;
  const at_ms = Date.parse(text.replace(fraction, ''));
  if (!(at_ms >= FIRST_MS && at_ms <= LAST_MS)) return null;
  // Date.parse() takes November 31 for December 1.
  const [day] = text.split('T') as [string];
  if (!new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)) return null;
  const micros = fraction.slice(1, 7).padEnd(6, '0');
  return `${new Date(at_ms).toISOString().slice(0, 19)}.${micros}Z`;
}

const timeOf: Read<string> = (text) => {
  const time = parseTime(text);
  if (time !== null) return time;
  return { problem: 'must be a time with its zone, as 2026-11-20T09:22:23Z (+ is sent as %2B)' };
};

const limitOf: Read<number> = (text) => {
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= PAGE_LIMIT) return limit;
  return { problem: `must be a whole number from 1 to ${PAGE_LIMIT}` };
};

/** The time is a safe integer, so its first eleven bits are 0. */
export const CURSOR = /^A[AB][A-Za-z0-9_-]{30}$/;

/** Callers need not know what is in it, so that it can change. */
export function cursorOf({ at_us, id }: ListPlace): string {
  const bytes = Buffer.alloc(24);
  bytes.writeBigUInt64BE(BigInt(at_us));
  bytes.write(id.replaceAll('-', ''), 8, 'hex');
  return bytes.toString('base64url');
}

const placeOf: Read<ListPlace> = (text) => {
  const problem = 'must be the next of an earlier page';
  if (!CURSOR.test(text)) return { problem };
  const bytes = Buffer.from(text, 'base64url');
  const at_us = Number(bytes.readBigUInt64BE());
  const hex = bytes.toString('hex', 8);
  const id = parseUuid(hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'));
  return id === null ? { problem } : { at_us, id };
};
