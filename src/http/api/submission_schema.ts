/**
 * The one schema of a submission: it validates requests, and the OpenAPI document derives from it. Where JSON Schema has
 * no words for a rule (bytes of UTF-8, one field that needs another), the rule is a check here and a sentence in the
 * field's description.
 */
import * as v from 'valibot';
import {
  ENCODED_PREFIX,
  isSecret,
  SECRET_LIMIT_BYTES,
  SECRET_PATTERN,
  URL_LIMIT_BYTES,
} from '../../domain/webhook_secret.ts';
import { acceptedNames, BY_NAME } from '../../languages/common/registry.ts';
import { type FieldRule, ruled } from './field_rules.ts';
import {
  argsSchema,
  base64,
  count,
  isWellFormed,
  LONE_SURROGATE,
  limitsSchema,
  optional,
  type RequestBounds,
  TEXT_LIMIT_BYTES,
  text,
  type WithoutNulls,
} from './field_schemas.ts';
import { JUDGING_RULES, judgingEntries } from './judging_schema.ts';

/** The decisions of an operator about requests. */
export type SubmissionRules = {
  languages: readonly string[];
  bounds: RequestBounds;
  /** optional fields that this deployment does not accept */
  forbidden: readonly string[];
  /** why a result cannot be delivered there, or null */
  webhookUrlProblem: (url: string) => string | null;
};

export function submissionSchema(rules: SubmissionRules) {
  const { bounds } = rules;
  const names = acceptedNames(rules.languages);
  return ruled(
    v.strictObject(
      {
        language: v.pipe(
          v.picklist(names, `must be one of ${names.join(', ')}`),
          v.description(aliasesOf(rules.languages)),
        ),
        code: text(`Source code, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8.`),
        stdin: optional(text(`Standard input, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8.`)),
        stdin_base64: optional(
          base64(
            TEXT_LIMIT_BYTES,
            `Standard input as base64, instead of stdin; at most ${count(TEXT_LIMIT_BYTES)} bytes when decoded.`,
          ),
        ),
        args: optional(argsSchema()),
        expected_output: optional(
          text(
            `The stdout that AC needs, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8; another one is a WA.`,
          ),
        ),
        limits: optional(limitsSchema(bounds)),
        ...judgingEntries(rules),
        webhook_url: optional(webhookUrl(rules.webhookUrlProblem)),
        webhook_secret: optional(
          v.pipe(
            v.string('must be a string'),
            v.check(isWellFormed, LONE_SURROGATE),
            v.check((value) => {
              const bytes = Buffer.byteLength(value);
              return bytes >= 1 && bytes <= SECRET_LIMIT_BYTES;
            }, `must be 1 to ${SECRET_LIMIT_BYTES} bytes of UTF-8`),
            v.check(isSecret, `begins with ${ENCODED_PREFIX}, so base64 must follow`),
            v.metadata({
              description: `Signs the delivery (Standard Webhooks); 1 to ${SECRET_LIMIT_BYTES} bytes of UTF-8. After ${ENCODED_PREFIX} it is the key as base64. Required with webhook_url, and only allowed with it.`,
              pattern: SECRET_PATTERN,
              minLength: 1,
              maxLength: SECRET_LIMIT_BYTES,
            }),
          ),
        ),
      },
      'must be a JSON object',
    ),
    RULES,
  );
}

const RULES: readonly FieldRule[] = [
  { field: 'stdin_base64', not_with: ['stdin'] },
  ...JUDGING_RULES,
  { field: 'webhook_url', needs: 'webhook_secret' },
  { field: 'webhook_secret', needs: 'webhook_url' },
];

/** "py is python; c++ and cxx are cpp." */
function aliasesOf(languages: readonly string[]): string {
  const sentences = languages.flatMap((name) => {
    const aliases = BY_NAME.get(name)?.aliases ?? [];
    if (aliases.length === 0) return [];
    return [`${aliases.join(' and ')} ${aliases.length === 1 ? 'is' : 'are'} ${name}`];
  });
  return sentences.length === 0 ? 'The canonical name.' : `${sentences.join('; ')}.`;
}

/** As a client sends it. */
export type SubmissionInput = v.InferInput<ReturnType<typeof submissionSchema>>;
export type SubmissionBody = WithoutNulls<SubmissionInput>;

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
