/**
 * The one schema of a submission: it validates requests, and the OpenAPI document derives from it. Where JSON Schema has
 * no words for a rule (bytes of UTF-8, one field that needs another), the rule is a check here and a sentence in the
 * field's description.
 */
import * as v from 'valibot';
import { type Bound, REQUEST_LIMITS, type RequestLimitName } from '../../domain/limits.ts';
import { acceptedNames, BY_NAME } from '../../languages/common/registry.ts';

export const TEXT_LIMIT_BYTES = 65_536;
export const SECRET_LIMIT_BYTES = 256;
export const URL_LIMIT_BYTES = 2_048;
export const ARGS_LIMIT = 64;
export const ARGS_LIMIT_BYTES = 4_096;

export const count = (limit: number) => limit.toLocaleString('en');

/** The decisions of an operator about requests. */
export type SubmissionRules = {
  languages: readonly string[];
  /** by the names and in the units of the API */
  bounds: Record<RequestLimitName, Bound>;
  /** optional fields that this deployment does not accept */
  forbidden: readonly string[];
  /** why a result cannot be delivered there, or null */
  webhookUrlProblem: (url: string) => string | null;
};

export function submissionSchema(rules: SubmissionRules) {
  const { bounds } = rules;
  const names = acceptedNames(rules.languages);
  return v.pipe(
    v.strictObject(
      {
        language: v.pipe(
          v.picklist(names, `must be one of ${names.join(', ')}`),
          v.description(aliasesOf(rules.languages)),
        ),
        code: text(`Source code, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8.`),
        stdin: v.exactOptional(
          text(`Standard input, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8.`),
        ),
        stdin_base64: v.exactOptional(
          base64(
            TEXT_LIMIT_BYTES,
            `Standard input as base64, instead of stdin; at most ${count(TEXT_LIMIT_BYTES)} bytes when decoded.`,
          ),
        ),
        args: v.exactOptional(argsSchema()),
        expected_output: v.exactOptional(
          text(
            `The stdout that AC needs, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8; another one is a WA.`,
          ),
        ),
        compare: v.exactOptional(
          v.pipe(
            v.picklist(['lenient', 'exact'], 'must be lenient or exact'),
            v.description(
              'lenient (the default) ignores white space at the ends of lines and of the text.',
            ),
          ),
        ),
        limits: v.exactOptional(limitsSchema(bounds)),
        webhook_url: v.exactOptional(webhookUrl(rules.webhookUrlProblem)),
        webhook_secret: v.exactOptional(
          v.pipe(
            v.string('must be a string'),
            v.check(isWellFormed, LONE_SURROGATE),
            v.check((value) => {
              const bytes = Buffer.byteLength(value);
              return bytes >= 1 && bytes <= SECRET_LIMIT_BYTES;
            }, `must be 1 to ${SECRET_LIMIT_BYTES} bytes of UTF-8`),
            v.metadata({
              description: `Signs the delivery (Standard Webhooks); 1 to ${SECRET_LIMIT_BYTES} bytes of UTF-8. Required with webhook_url, and only allowed with it.`,
              minLength: 1,
              maxLength: SECRET_LIMIT_BYTES,
            }),
          ),
        ),
      },
      'must be a JSON object',
    ),
    v.rawCheck((at) => need('webhook_url', 'webhook_secret', at)),
    v.rawCheck((at) => need('webhook_secret', 'webhook_url', at)),
  );
}

/** "py is python; c++ and cxx are cpp." */
function aliasesOf(languages: readonly string[]): string {
  const sentences = languages.flatMap((name) => {
    const aliases = BY_NAME.get(name)?.aliases ?? [];
    if (aliases.length === 0) return [];
    return [`${aliases.join(' and ')} ${aliases.length === 1 ? 'is' : 'are'} ${name}`];
  });
  return sentences.length === 0 ? 'The canonical name.' : `${sentences.join('; ')}.`;
}

export type SubmissionBody = v.InferOutput<ReturnType<typeof submissionSchema>>;

type WebhookField = 'webhook_url' | 'webhook_secret';
type RawCheck = {
  dataset: { value: unknown };
  addIssue: (issue: { message: string; path: [v.ObjectPathItem] }) => void;
};

/** An error for `wanted` where `given` is there without it, whatever else is wrong with the request. */
function need(given: WebhookField, wanted: WebhookField, { dataset, addIssue }: RawCheck): void {
  const input = dataset.value as Record<string, unknown> | null;
  if (typeof input !== 'object' || input === null) return;
  if (input[given] === undefined || input[wanted] !== undefined) return;
  addIssue({
    message: `is required when ${given} is set`,
    path: [{ type: 'object', origin: 'value', input, key: wanted, value: undefined }],
  });
}

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

type LimitEntries = Record<
  RequestLimitName,
  v.ExactOptionalSchema<v.GenericSchema<number>, undefined>
>;

export function limitsSchema(bounds: SubmissionRules['bounds']) {
  const entries = REQUEST_LIMITS.map(({ name, unit, description }) => {
    const number = unit === 'ms' ? seconds(bounds[name]) : whole(bounds[name]);
    return [name, v.exactOptional(v.pipe(number, v.description(description)))];
  });
  const names = REQUEST_LIMITS.map(({ name }) => name);
  return v.strictObject(
    Object.fromEntries(entries) as LimitEntries,
    `must be an object of ${names.join(', ')}`,
  );
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

function webhookUrl(block: (url: string) => string | null) {
  return v.pipe(
    v.string('must be a string'),
    v.check(isWellFormed, LONE_SURROGATE),
    v.maxBytes(URL_LIMIT_BYTES, `must be at most ${URL_LIMIT_BYTES} bytes`),
    v.rawCheck(({ dataset, addIssue }) => {
      // A text that has failed an earlier check gets no second error, and is not parsed, however long it is.
      if (!dataset.typed || dataset.issues) return;
      const reason = block(dataset.value);
      if (reason !== null) addIssue({ message: reason });
    }),
    v.metadata({
      description: `The address that the result is delivered to: https, without credentials, at most ${count(URL_LIMIT_BYTES)} bytes, and not of a private or special range.`,
      format: 'uri',
      pattern: '^[hH][tT][tT][pP][sS]://',
      maxLength: URL_LIMIT_BYTES,
    }),
  );
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

function isBase64(value: string): boolean {
  return value.length % 4 === 0 && BASE64.test(value);
}

export function base64Bytes(value: string): number {
  const padding = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0;
  return (value.length / 4) * 3 - padding;
}
