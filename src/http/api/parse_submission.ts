/** From the bytes of a body to a submission, or to every mistake in it. Pure. */
import { createHmac } from 'node:crypto';
import * as v from 'valibot';
import { type LimitOverrides, REQUEST_LIMITS } from '../../domain/limits.ts';
import { CANONICAL_NAMES } from '../../languages/common/registry.ts';
import { DEPTH_LIMIT, ERRORS_SHOWN, join, parseJson } from '../wire/json_text.ts';
import type { FieldError } from '../wire/problem.ts';
import {
  type SubmissionBody,
  type SubmissionRules,
  submissionSchema,
} from './submission_schema.ts';

export type ParsedSubmission = {
  /** the canonical name */
  language: string;
  code: Uint8Array;
  stdin: Uint8Array;
  args: string[];
  expected_output: Uint8Array | null;
  compare: 'lenient' | 'exact';
  limits: LimitOverrides;
  webhook: { url: string; secret: string } | null;
};

export type SubmissionParse =
  | { submission: ParsedSubmission; errors?: undefined }
  | { submission?: undefined; errors: FieldError[] };

export function submissionParser(rules: SubmissionRules): (body: Uint8Array) => SubmissionParse {
  const schema = submissionSchema(rules);
  const known = new Set(Object.keys(schema.entries));
  const knownLimits = new Set(Object.keys(schema.entries.limits.wrapped.entries));
  return (body) => {
    const { value, errors } = parseJson(body);
    if (value === undefined) return { errors };
    // The schema would accept an array as an object without names.
    if (Array.isArray(value)) return { errors: [{ path: '', message: 'must be a JSON object' }] };
    const long = longLists(value, '', 0);
    if (long.length > 0) return { errors: shownErrors([...errors, ...long]) };
    const parsed = v.safeParse(schema, value);
    errors.push(
      ...namesOutside(known, value, ''),
      ...namesOutside(knownLimits, (value as { limits?: unknown } | null)?.limits, 'limits'),
      ...forbiddenNames(rules.forbidden, value),
      ...clashes(value as object | null),
    );
    for (const issue of parsed.issues ?? []) {
      if (isUnknownName(issue)) continue;
      errors.push({ path: pathOf(issue), message: messageOf(issue) });
    }
    if (errors.length > 0 || !parsed.success) return { errors: shownErrors(errors) };
    return { submission: submissionOf(parsed.output) };
  };
}

/**
 * Compared when an Idempotency-Key is used again. The digest is stored, so it is keyed: otherwise a short stdin could be
 * guessed from it. Each part is preceded by its length, so that two different requests never have the same encoding.
 */
export function requestDigest(key: Uint8Array, submission: ParsedSubmission): Uint8Array {
  const { code, stdin, expected_output, ...rest } = submission;
  const limits = Object.entries(rest.limits).sort(([a], [b]) => (a < b ? -1 : 1));
  const facts = JSON.stringify([rest.language, rest.args, rest.compare, limits, rest.webhook]);
  const mac = createHmac('sha256', key);
  for (const part of [Buffer.from(facts), code, stdin, expected_output]) {
    mac.update(part === null ? '-;' : `${part.length};`);
    if (part !== null) mac.update(part);
  }
  return mac.digest();
}

/** Valibot stops at the first unknown name; the answer names all of them. */
function namesOutside(known: Set<string>, value: unknown, path: string): FieldError[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.keys(value)
    .filter((name) => !known.has(name))
    .slice(0, ERRORS_SHOWN)
    .map((name) => ({
      path: join(path, name),
      message: `is not a field of this request; the fields are ${[...known].join(', ')}`,
    }));
}

function forbiddenNames(forbidden: readonly string[], value: unknown): FieldError[] {
  if (typeof value !== 'object' || value === null) return [];
  return forbidden
    .filter((name) => Object.hasOwn(value, name))
    .map((path) => ({ path, message: 'is not allowed by this deployment' }));
}

/** Mistakes that the schema cannot see; one is that it accepts a list as an object without names. */
function clashes(value: object | null): FieldError[] {
  const body = (value ?? {}) as Record<string, unknown>;
  const errors: FieldError[] = [];
  if (Array.isArray(body['limits'])) errors.push({ path: 'limits', message: 'must be an object' });
  if (body['stdin'] !== undefined && body['stdin_base64'] !== undefined) {
    errors.push({ path: 'stdin_base64', message: 'is given together with stdin: send one' });
  }
  return errors;
}

/** No field may have a longer list. */
const LIST_LIMIT = 256;

/**
 * Lists that are too long for any field. The schema would make an error of each wrong item before it looks at the length: a
 * body of 2 MB could cost 700 MiB and more than a second.
 */
function longLists(value: unknown, path: string, depth: number): FieldError[] {
  // A value that nests deeper has an error already, and no field of it reaches as deep.
  if (typeof value !== 'object' || value === null || depth === DEPTH_LIMIT) return [];
  if (!Array.isArray(value)) {
    const entries = Object.entries(value);
    return entries.flatMap(([name, item]) => longLists(item, join(path, name), depth + 1));
  }
  if (value.length > LIST_LIMIT) return [{ path, message: `has more than ${LIST_LIMIT} items` }];
  return value.flatMap((item, index) => longLists(item, `${path}[${index}]`, depth + 1));
}

function isUnknownName(issue: v.BaseIssue<unknown>): boolean {
  return issue.type === 'strict_object' && issue.expected === 'never';
}

function messageOf(issue: v.BaseIssue<unknown>): string {
  const missing = issue.type === 'strict_object' && issue.path !== undefined;
  return missing && issue.received === 'undefined' ? 'is required' : issue.message;
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  let path = '';
  for (const { key } of issue.path ?? []) {
    path = typeof key === 'number' ? `${path}[${key}]` : join(path, String(key));
  }
  return path;
}

/** The first error of each field, up to a bound: a body with 100,000 mistakes must not make an answer as large as itself. */
function shownErrors(errors: FieldError[]): FieldError[] {
  const first = new Map<string, FieldError>();
  for (const error of errors) {
    if (first.size < ERRORS_SHOWN && !first.has(error.path)) first.set(error.path, error);
  }
  return [...first.values()];
}

function submissionOf(body: SubmissionBody): ParsedSubmission {
  const { webhook_url, webhook_secret } = body;
  return {
    language: CANONICAL_NAMES.get(body.language)!,
    code: Buffer.from(body.code),
    stdin:
      body.stdin_base64 === undefined
        ? Buffer.from(body.stdin ?? '')
        : Buffer.from(body.stdin_base64, 'base64'),
    args: body.args ?? [],
    expected_output: body.expected_output === undefined ? null : Buffer.from(body.expected_output),
    compare: body.compare ?? 'lenient',
    limits: limitsOf(body.limits ?? {}),
    webhook:
      webhook_url === undefined || webhook_secret === undefined
        ? null
        : { url: webhook_url, secret: webhook_secret },
  };
}

/** Seconds of the API become whole milliseconds. */
function limitsOf(limits: NonNullable<SubmissionBody['limits']>): LimitOverrides {
  const overrides: LimitOverrides = {};
  for (const { name, stored, unit } of REQUEST_LIMITS) {
    const value = limits[name];
    if (value !== undefined) overrides[stored] = unit === 'ms' ? Math.round(value * 1000) : value;
  }
  return overrides;
}
