/** From the bytes of a body to a submission, or to every field that is at fault. Pure. */
import { createHmac } from 'node:crypto';
import * as v from 'valibot';
import type { LanguageName, LimitOverrides } from '../domain/limits.ts';
import { CANONICAL_NAMES } from '../languages/shared/registry.ts';
import { FAULTS_SHOWN, join, parseJson } from './json_text.ts';
import type { FieldFault } from './problem.ts';
import { type SubmissionBody, type SubmissionRules, submissionSchema } from './schemas.ts';

export type ParsedSubmission = {
  language: LanguageName;
  code: Uint8Array;
  stdin: Uint8Array;
  args: string[];
  expected_output: Uint8Array | null;
  compare: 'lenient' | 'exact';
  limits: LimitOverrides;
  webhook: { url: string; secret: string } | null;
};

export type SubmissionParse =
  | { submission: ParsedSubmission; faults?: undefined }
  | { submission?: undefined; faults: FieldFault[] };

export function submissionParser(rules: SubmissionRules): (body: Uint8Array) => SubmissionParse {
  const schema = submissionSchema(rules);
  const known = new Set(Object.keys(schema.entries));
  const knownLimits = new Set(Object.keys(schema.entries.limits.wrapped.entries));
  return (body) => {
    const { value, faults } = parseJson(body);
    if (value === undefined) return { faults };
    // An array would pass for an object without names.
    if (Array.isArray(value)) return { faults: [{ path: '', message: 'must be a JSON object' }] };
    const parsed = v.safeParse(schema, value);
    faults.push(
      ...namesOutside(known, value, ''),
      ...namesOutside(knownLimits, (value as { limits?: unknown } | null)?.limits, 'limits'),
      ...forbiddenNames(rules.forbidden, value),
      ...clashes(value as object | null),
    );
    for (const issue of parsed.issues ?? []) {
      if (isUnknownName(issue)) continue;
      faults.push({ path: pathOf(issue), message: messageOf(issue) });
    }
    if (faults.length > 0 || !parsed.success) return { faults: shownFaults(faults) };
    return { submission: submissionOf(parsed.output) };
  };
}

/**
 * Compared when an Idempotency-Key comes back. It is keyed because it is kept: without the key a
 * short stdin could be guessed from it. Each part has its length in front, so that no two
 * requests are written alike.
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

/** Valibot stops at the first unknown name; a caller is told all of them. */
function namesOutside(known: Set<string>, value: unknown, path: string): FieldFault[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.keys(value)
    .filter((name) => !known.has(name))
    .slice(0, FAULTS_SHOWN)
    .map((name) => ({
      path: join(path, name),
      message: `is not a field of this request; the fields are ${[...known].join(', ')}`,
    }));
}

function forbiddenNames(forbidden: readonly string[], value: unknown): FieldFault[] {
  if (typeof value !== 'object' || value === null) return [];
  return forbidden
    .filter((name) => Object.hasOwn(value, name))
    .map((path) => ({ path, message: 'is not allowed by this deployment' }));
}

/** What the schema cannot see: it takes a list for an object without names. */
function clashes(value: object | null): FieldFault[] {
  const body = (value ?? {}) as Record<string, unknown>;
  const faults: FieldFault[] = [];
  if (Array.isArray(body['limits'])) faults.push({ path: 'limits', message: 'must be an object' });
  if (body['stdin'] !== undefined && body['stdin_base64'] !== undefined) {
    faults.push({ path: 'stdin_base64', message: 'is given together with stdin: send one' });
  }
  return faults;
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

/** The first of each field; and a body of 100,000 faults must not make an answer as large as itself. */
function shownFaults(faults: FieldFault[]): FieldFault[] {
  const first = new Map<string, FieldFault>();
  for (const fault of faults) {
    if (first.size < FAULTS_SHOWN && !first.has(fault.path)) first.set(fault.path, fault);
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

function limitsOf(limits: NonNullable<SubmissionBody['limits']>): LimitOverrides {
  const { cpu_time, wall_time, memory, output, processes } = limits;
  return {
    ...(cpu_time !== undefined && { cpu_time_ms: Math.round(cpu_time * 1000) }),
    ...(wall_time !== undefined && { wall_time_ms: Math.round(wall_time * 1000) }),
    ...(memory !== undefined && { memory_bytes: memory }),
    ...(output !== undefined && { output_bytes: output }),
    ...(processes !== undefined && { processes }),
  };
}
