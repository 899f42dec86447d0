/**
 * The shape of a submission, once: it validates requests, and the OpenAPI document is made from
 * it. What JSON Schema cannot say (bytes of UTF-8, one field needing another) is a check
 * here and a sentence in the field's description.
 */
import * as v from 'valibot';
import type { Bound, LanguageName } from '../domain/limits.ts';
import { acceptedNames, BY_NAME } from '../languages/shared/registry.ts';

export const TEXT_LIMIT_BYTES = 65_536;
export const SECRET_LIMIT_BYTES = 256;
export const URL_LIMIT_BYTES = 2_048;
export const ARGS_LIMIT = 64;
export const ARGS_LIMIT_BYTES = 4_096;

export const LIMIT_NAMES = ['cpu_time', 'wall_time', 'memory', 'output', 'processes'] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

/** What an operator decides about requests. */
export type SubmissionRules = {
  languages: readonly LanguageName[];
  bounds: Record<LimitName, Bound>;
  /** optional fields of our own that this deployment does not take */
  forbidden: readonly string[];
  /** why a result cannot be delivered there, or null */
  refuseWebhookUrl: (url: string) => string | null;
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
        code: text('Source code, at most 65,536 bytes of UTF-8.'),
        stdin: v.exactOptional(text('Standard input, at most 65,536 bytes of UTF-8.')),
        stdin_base64: v.exactOptional(
          v.pipe(
            v.string('must be a string'),
            v.check(isBase64, 'must be base64 (RFC 4648, with padding)'),
            v.check(
              (value) => base64Bytes(value) <= TEXT_LIMIT_BYTES,
              `decodes to more than ${TEXT_LIMIT_BYTES} bytes`,
            ),
            v.metadata({
              description:
                'Standard input as base64, instead of stdin; at most 65,536 bytes when decoded.',
              maxLength: Math.ceil(TEXT_LIMIT_BYTES / 3) * 4,
              contentEncoding: 'base64',
            }),
          ),
        ),
        args: v.exactOptional(argsSchema()),
        expected_output: v.exactOptional(
          text('What stdout must be for AC, at most 65,536 bytes of UTF-8; WA where it differs.'),
        ),
        compare: v.exactOptional(
          v.pipe(
            v.picklist(['lenient', 'exact'], 'must be lenient or exact'),
            v.description(
              'lenient (the default) ignores white space at the ends of lines and of the text.',
            ),
          ),
        ),
        limits: v.exactOptional(
          v.strictObject(
            {
              cpu_time: v.exactOptional(seconds(bounds.cpu_time, 'CPU time of the run')),
              wall_time: v.exactOptional(seconds(bounds.wall_time, 'Elapsed time of the run')),
              memory: v.exactOptional(whole(bounds.memory, 'Memory of the run, bytes')),
              output: v.exactOptional(whole(bounds.output, 'Standard output kept, bytes')),
              processes: v.exactOptional(whole(bounds.processes, 'Processes and threads at once')),
            },
            'must be an object of cpu_time, wall_time, memory, output, processes',
          ),
        ),
        webhook_url: v.exactOptional(webhookUrl(rules.refuseWebhookUrl)),
        webhook_secret: v.exactOptional(
          v.pipe(
            v.string('must be a string'),
            v.check(isWellFormed, LONE_SURROGATE),
            v.check((value) => {
              const bytes = Buffer.byteLength(value);
              return bytes >= 1 && bytes <= SECRET_LIMIT_BYTES;
            }, `must be 1 to ${SECRET_LIMIT_BYTES} bytes of UTF-8`),
            v.metadata({
              description:
                'Signs the delivery (Standard Webhooks); 1 to 256 bytes of UTF-8. Needed with webhook_url, and only with it.',
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
function aliasesOf(languages: readonly LanguageName[]): string {
  const said = languages.flatMap((name) => {
    const aliases = BY_NAME.get(name)?.aliases ?? [];
    if (aliases.length === 0) return [];
    return [`${aliases.join(' and ')} ${aliases.length === 1 ? 'is' : 'are'} ${name}`];
  });
  return said.length === 0 ? 'The canonical name.' : `${said.join('; ')}.`;
}

export type SubmissionBody = v.InferOutput<ReturnType<typeof submissionSchema>>;

type WebhookField = 'webhook_url' | 'webhook_secret';
type RawCheck = {
  dataset: { value: unknown };
  addIssue: (issue: { message: string; path: [v.ObjectPathItem] }) => void;
};

/** `wanted` is named when `given` is there without it, whatever else is wrong with the request. */
function need(given: WebhookField, wanted: WebhookField, { dataset, addIssue }: RawCheck): void {
  const input = dataset.value as Record<string, unknown> | null;
  if (typeof input !== 'object' || input === null) return;
  if (input[given] === undefined || input[wanted] !== undefined) return;
  addIssue({
    message: `is required when ${given} is set`,
    path: [{ type: 'object', origin: 'value', input, key: wanted, value: undefined }],
  });
}

const LONE_SURROGATE =
  'has half of a surrogate pair, which is no Unicode character: send the whole pair';

const isWellFormed = (value: string): boolean => value.isWellFormed();

function text(description: string) {
  return v.pipe(
    v.string('must be a string'),
    v.check(isWellFormed, LONE_SURROGATE),
    v.maxBytes(
      TEXT_LIMIT_BYTES,
      (issue) => `is ${issue.received} bytes of UTF-8; the most is ${TEXT_LIMIT_BYTES}`,
    ),
    // No text of that many bytes has more characters: so much JSON Schema can say.
    v.metadata({ description, maxLength: TEXT_LIMIT_BYTES }),
  );
}

function argsSchema() {
  return v.pipe(
    v.array(
      v.pipe(
        v.string('must be a string'),
        v.check(isWellFormed, LONE_SURROGATE),
        v.check((value) => !value.includes('\0'), 'has a NUL, which no argument can have'),
        // no end anchor in $-form: a line break at the end is no NUL either
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
      'Arguments of the program: at most 64, and 4,096 bytes of UTF-8 in all; no NUL in them.',
    ),
  );
}

function seconds({ min, max }: Bound, what: string) {
  return v.pipe(
    v.number('must be a number of seconds'),
    v.minValue(min, `must be at least ${min} seconds`),
    v.maxValue(max, `must be at most ${max} seconds here`),
    v.description(`${what}, seconds.`),
  );
}

function whole({ min, max }: Bound, what: string) {
  return v.pipe(
    v.number('must be a whole number'),
    v.integer('must be a whole number'),
    v.minValue(min, `must be at least ${min}`),
    v.maxValue(max, `must be at most ${max} here`),
    v.description(`${what}.`),
  );
}

function webhookUrl(refuse: (url: string) => string | null) {
  return v.pipe(
    v.string('must be a string'),
    v.check(isWellFormed, LONE_SURROGATE),
    v.maxBytes(URL_LIMIT_BYTES, `must be at most ${URL_LIMIT_BYTES} bytes`),
    v.rawCheck(({ dataset, addIssue }) => {
      // A text that has failed already is not judged twice (nor parsed, however long it is).
      if (!dataset.typed || dataset.issues) return;
      const reason = refuse(dataset.value);
      if (reason !== null) addIssue({ message: reason });
    }),
    v.metadata({
      description:
        'Where the result is delivered: https, no credentials in it, at most 2,048 bytes, no address of a private or special range.',
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

function base64Bytes(value: string): number {
  const padding = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0;
  return (value.length / 4) * 3 - padding;
}
