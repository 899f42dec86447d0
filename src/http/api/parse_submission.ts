/** From the bytes of a body to a submission, or to every mistake in it. Pure. */
import { createHmac } from 'node:crypto';
import * as v from 'valibot';
import type { LimitOverrides } from '../../domain/limits.ts';
import { type JudgingRequest, packRequest } from '../../judging/packed_request.ts';
import type { TokenCompare } from '../../judging/tokens.ts';
import { CANONICAL_NAMES } from '../../languages/common/registry.ts';
import type { SubmittedJudging } from '../../store/submissions.ts';
import { parseUuid } from '../wire/header_values.ts';
import { DEPTH_LIMIT, ERRORS_SHOWN, join, type ParsedJson, parseJson } from '../wire/json_text.ts';
import type { FieldError } from '../wire/problem.ts';
import { ARGS_LIMIT, notAField, withoutNulls } from './field_schemas.ts';
import { forbiddenPaths } from './forbidden_fields.ts';
import { bytesOf, judgingRequestOf, limitsOf, storedCompare } from './judging_request.ts';
import { FILES_LIMIT, judgingClashes, OUTPUTS_LIMIT, TESTS_LIMIT } from './judging_schema.ts';
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
  compare: 'lenient' | 'exact' | TokenCompare;
  limits: LimitOverrides;
  /** null: one plain run */
  judging: SubmittedJudging | null;
  webhook: { url: string; secret: string } | null;
};

export type SubmissionParse =
  | { submission: ParsedSubmission; errors?: undefined }
  | { submission?: undefined; errors: FieldError[] };

/** An item of a batch has its Idempotency-Key as a field, because the headers are of the whole batch. */
export type ItemParse =
  | { submission: ParsedSubmission; idempotency_key: string | null; errors?: undefined }
  | { submission?: undefined; errors: FieldError[] }
  /** The bytes are not JSON, or are not read. */
  | { submission?: undefined; errors?: undefined; unread: FieldError[] };

export type SubmissionParser = {
  body(body: Uint8Array): SubmissionParse;
  item(bytes: Uint8Array): ItemParse;
};

const FORBIDDEN = 'is not allowed by this deployment';

export function submissionParser(rules: SubmissionRules): SubmissionParser {
  const schema = submissionSchema(rules);

  function read({ value, errors }: ParsedJson): SubmissionParse {
    if (value === undefined) return { errors };
    // The schema would accept an array as an object without names.
    if (Array.isArray(value)) return { errors: [{ path: '', message: 'must be a JSON object' }] };
    errors.push(...emptyLongLists(value, '', 0));
    const parsed = v.safeParse(schema, value);
    namesOutside(schema as unknown as Shape, value, '', errors);
    // Only now: a field that does not exist is an error even if it is null.
    const given = withoutNulls(value);
    errors.push(
      ...forbiddenPaths(rules.forbidden, given).map((path) => ({ path, message: FORBIDDEN })),
      ...clashes(given as object | null),
      ...judgingClashes(given),
    );
    for (const issue of parsed.issues?.flatMap(withinForms) ?? []) {
      if (isNamedAlready(issue)) continue;
      errors.push({ path: pathOf(issue), message: messageOf(issue) });
    }
    if (errors.length > 0 || !parsed.success) return { errors: shownErrors(errors) };
    return { submission: submissionOf(withoutNulls(parsed.output)) };
  }

  return {
    body: (body) => read(parseJson(body)),
    item(bytes) {
      const { value, errors, not_parsed } = parseJson(bytes);
      if (not_parsed) return { unread: errors };
      if (value === undefined) return { unread: [{ path: '', message: 'is not valid JSON' }] };
      const { key, others } = splitKey(value);
      const idempotency_key = typeof key === 'string' ? parseUuid(key) : null;
      if (key !== null && idempotency_key === null)
        errors.push({ path: 'idempotency_key', message: 'must be a UUID' });
      const parsed = read({ value: others, errors });
      return parsed.errors ? parsed : { ...parsed, idempotency_key };
    },
  };
}

function splitKey(value: unknown): { key: unknown; others: unknown } {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { key: null, others: value };
  const { idempotency_key: key = null, ...others } = value as Record<string, unknown>;
  return { key, others };
}

/**
 * Compared when an Idempotency-Key is used again. The digest is stored, so it is keyed: otherwise a short stdin could be
 * guessed from it. Each part is preceded by its length, so that two different requests never have the same encoding.
 */
export function requestDigest(key: Uint8Array, submission: ParsedSubmission): Uint8Array {
  const { code, stdin, expected_output, judging, ...rest } = submission;
  const limits = Object.entries(rest.limits).sort(([a], [b]) => (a < b ? -1 : 1));
  // A comparison of tokens is in the judging, too.
  const compare = typeof rest.compare === 'string' ? rest.compare : 'tokens';
  const facts = JSON.stringify([rest.language, rest.args, compare, limits, rest.webhook]);
  const mac = createHmac('sha256', key);
  const parts = [Buffer.from(facts), code, stdin, expected_output];
  // Without judging, the digest is that of a time when there was none: a repeated call may span an upgrade.
  for (const part of judging === null ? parts : [...parts, judging.packed]) {
    mac.update(part === null ? '-;' : `${part.length};`);
    if (part !== null) mac.update(part);
  }
  return mac.digest();
}

/** What is looked at of a schema of valibot. */
type Shape = {
  readonly type: string;
  readonly entries?: Readonly<Record<string, Shape>>;
  readonly item?: Shape;
  readonly wrapped?: Shape;
  readonly options?: readonly Shape[];
};

/** Valibot stops at the first unknown name of an object; the answer names those of all objects, up to a bound. */
function namesOutside(schema: Shape, value: unknown, path: string, found: FieldError[]): void {
  if (typeof value !== 'object' || value === null || found.length >= ERRORS_SHOWN) return;
  const { entries, item, wrapped, options = [] } = schema;
  if (wrapped) namesOutside(wrapped, value, path, found);
  else if (Array.isArray(value)) {
    for (const [n, each] of value.entries())
      if (item) namesOutside(item, each, `${path}[${n}]`, found);
  } else if (entries) {
    const message = notAField(path === '' ? 'request' : 'object', Object.keys(entries).join(', '));
    for (const [name, inner] of Object.entries(value)) {
      const at = join(path, name);
      if (Object.hasOwn(entries, name)) namesOutside(entries[name]!, inner, at, found);
      else if (found.length < ERRORS_SHOWN) found.push({ path: at, message });
    }
  } else for (const option of options) namesOutside(option, value, path, found);
}

/** Mistakes that the schema cannot see; one is that it accepts a list as an object without names. */
function clashes(value: object | null): FieldError[] {
  const body = (value ?? {}) as Record<string, unknown>;
  const errors: FieldError[] = [];
  if (Array.isArray(body['limits'])) errors.push({ path: 'limits', message: 'must be an object' });
  return errors;
}

/** No field may have a longer list. Where one field is in many items, as `args` are, its own limit counts. */
const LIST_LIMIT = TESTS_LIMIT;
const LIST_LIMITS: ReadonlyMap<string, number> = new Map([
  ['args', ARGS_LIMIT],
  ['files', FILES_LIMIT],
  ['outputs', OUTPUTS_LIMIT],
]);

/**
 * Empties the lists that are too long for any field, and names them. The schema would make an error of each wrong item before it
 * looks at the length: a body of 2 MB could cost 700 MiB and more than a second.
 */
function emptyLongLists(
  value: unknown,
  path: string,
  depth: number,
  most = LIST_LIMIT,
): FieldError[] {
  // A value that nests deeper has an error already, and no field of it reaches as deep.
  if (typeof value !== 'object' || value === null || depth === DEPTH_LIMIT) return [];
  if (!Array.isArray(value)) {
    const inner = Object.entries(value).filter(([, item]) => typeof item === 'object');
    return inner.flatMap(([name, item]) =>
      emptyLongLists(item, join(path, name), depth + 1, LIST_LIMITS.get(name)),
    );
  }
  if (value.length > most) {
    value.length = 0;
    return [{ path, message: `has more than ${most} items` }];
  }
  return value.flatMap((item, index) => emptyLongLists(item, `${path}[${index}]`, depth + 1));
}

/** Where a value may have several forms: the mistakes within the one that it has. Valibot says only that no form fits. */
function withinForms(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown>[] {
  const isForm = issue.type === 'union' && !Array.isArray(issue.input);
  const inside = isForm ? issue.issues?.filter(({ path }) => path) : undefined;
  if (!inside || inside.length === 0) return [issue];
  return inside.map(
    (each) => ({ ...each, path: [...(issue.path ?? []), ...each.path!] }) as typeof issue,
  );
}

/** An unknown name: namesOutside names all of those. */
const isNamedAlready = ({ type, expected, path }: v.BaseIssue<unknown>): boolean =>
  type === 'strict_object' && expected === 'never' && path !== undefined;

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
    stdin: bytesOf(body.stdin, body.stdin_base64) ?? Buffer.alloc(0),
    args: body.args ?? [],
    expected_output: bytesOf(body.expected_output, undefined),
    compare: storedCompare(body),
    limits: limitsOf(body.limits ?? {}),
    judging: submittedJudging(judgingRequestOf(body)),
    webhook:
      webhook_url === undefined || webhook_secret === undefined
        ? null
        : { url: webhook_url, secret: webhook_secret },
  };
}

function submittedJudging(request: JudgingRequest): SubmittedJudging | null {
  const packed = packRequest(request);
  if (packed === null) return null;
  const { tests, test_set, stop } = request;
  return { tests: tests?.length ?? null, test_set, stop, packed };
}
