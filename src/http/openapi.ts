/** The OpenAPI 3.1 document, made from the schemas that validate and the table of operations. */
import { toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';
import { BY_NAME, CANONICAL_NAMES } from '../languages/shared/registry.ts';
import { ACCEPTED, HEALTH, languagesSchema, PROBE, PROBLEM, RESULT } from './answer_schemas.ts';
import {
  type Operation,
  operations,
  RESPONSE_HEADERS,
  type RequestExample,
  type Said,
} from './openapi_operations.ts';
import { messageOf, type ProblemWord, statusOf } from './problem.ts';
import { type SubmissionRules, submissionSchema } from './schemas.ts';

export type OpenapiDocument = Record<string, unknown> & {
  paths: Record<string, Record<string, OperationObject>>;
};
type OperationObject = Record<string, unknown>;

export function openapiDocument(rules: SubmissionRules): OpenapiDocument {
  const schemas: Record<string, GenericSchema> = {
    Accepted: ACCEPTED,
    Result: RESULT,
    Languages: languagesSchema(rules.languages),
    Health: HEALTH,
    Probe: PROBE,
    Problem: PROBLEM,
  };
  return {
    openapi: '3.1.0',
    info: {
      title: 'Runledger',
      version: '1.0.0',
      license: { name: 'MIT', identifier: 'MIT' },
      description:
        'Runs submitted source code and keeps a record of every run. All addresses are served over HTTPS only. Every call under /api/ needs a key and counts against its rate. Every error is JSON with a stable word in `error`; every answer has an `X-Request-Id`.',
    },
    servers: [{ url: '/' }],
    paths: pathsOf(operations, rules),
    components: {
      securitySchemes: {
        key: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'Keep it on your own servers; it is not for code that runs in browsers.',
        },
      },
      schemas: {
        SubmissionRequest: requestSchemaHere(rules),
        ...Object.fromEntries(
          Object.entries(schemas).map(([name, schema]) => [name, jsonSchemaOf(schema)]),
        ),
      },
      headers: RESPONSE_HEADERS,
    },
  };
}

/** What these check is said in the descriptions: JSON Schema has no words for it. */
const UNSPEAKABLE = ['check', 'raw_check', 'max_bytes'];

function jsonSchemaOf(schema: GenericSchema): object {
  const { $schema: _, ...said } = toJsonSchema(schema, {
    target: 'draft-2020-12',
    errorMode: 'throw',
    ignoreActions: UNSPEAKABLE,
  });
  return said;
}

/** Without what this deployment does not take. */
function requestSchemaHere(rules: SubmissionRules): object {
  const said = jsonSchemaOf(submissionSchema(rules)) as {
    properties: Record<string, unknown>;
  };
  for (const name of rules.forbidden) delete said.properties[name];
  return {
    ...said,
    dependentRequired: {
      webhook_url: ['webhook_secret'],
      webhook_secret: ['webhook_url'],
    },
    not: { required: ['stdin', 'stdin_base64'] },
  };
}

function examplesHere(
  examples: Record<string, RequestExample>,
  { forbidden, languages }: SubmissionRules,
): Record<string, RequestExample> {
  const taken = ([, { value, 'x-answer': answer }]: [string, RequestExample]) => {
    if (answer !== '202') return true;
    const language = CANONICAL_NAMES.get((value as { language: string }).language);
    return (
      languages.some((name) => name === language) &&
      !forbidden.some((name) => Object.hasOwn(value, name))
    );
  };
  const all = [...languages.map(helloIn), ...Object.entries(examples)];
  return Object.fromEntries(all.filter(taken));
}

function helloIn(name: string): [string, RequestExample] {
  const { title, hello } = BY_NAME.get(name)!;
  const summary = `The least there is to say in ${title}`;
  return [name, { summary, value: { language: name, code: hello }, 'x-answer': '202' }];
}

function pathsOf(all: readonly Operation[], rules: SubmissionRules): OpenapiDocument['paths'] {
  const paths: OpenapiDocument['paths'] = {};
  for (const operation of all) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method.toLowerCase()]: operationObject(operation, rules),
    };
  }
  return paths;
}

function operationObject(operation: Operation, rules: SubmissionRules): OperationObject {
  const { id, summary, description, keyed, parameters, request } = operation;
  return {
    operationId: id,
    summary,
    ...(description !== undefined && { description }),
    security: keyed ? [{ key: [] }] : [],
    ...(parameters.length > 0 && { parameters }),
    ...(request !== undefined && {
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/SubmissionRequest' },
            examples: examplesHere(request, rules),
          },
        },
      },
    }),
    responses: { ...saidResponses(operation.says, rules), ...problemResponses(operation) },
  };
}

function saidResponses(says: readonly Said[], rules: SubmissionRules): Record<string, unknown> {
  return Object.fromEntries(
    says.map(
      ({ status, description, schemas, type = 'application/json', headers, examples: given }) => {
        const examples = typeof given === 'function' ? given(rules) : given;
        const refs = schemas.map((name) => ({ $ref: `#/components/schemas/${name}` }));
        const any = type === 'application/json' ? { type: 'object' } : { type: 'string' };
        const schema = refs.length > 1 ? { anyOf: refs } : (refs[0] ?? any);
        return [
          status,
          {
            description,
            headers: headerRefs(['X-Request-Id', ...headers]),
            content: { [type]: { schema, ...(examples && { examples }) } },
          },
        ];
      },
    ),
  );
}

/** Problems that share a status (503) share a response. */
function problemResponses({ problems, keyed }: Operation): Record<string, unknown> {
  const byStatus = new Map<number, ProblemWord[]>();
  for (const word of problems) {
    byStatus.set(statusOf(word), [...(byStatus.get(statusOf(word)) ?? []), word]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, words]) => [
      String(status),
      {
        description: words.map((word) => `\`${word}\`: ${messageOf(word)}`).join(' '),
        headers: headerRefs(['X-Request-Id', ...problemHeaders(words, keyed)]),
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/Problem' },
            examples: Object.fromEntries(words.map((word) => [word, problemExample(word)])),
          },
        },
      },
    ]),
  );
}

function problemExample(word: ProblemWord): { value: object } {
  return {
    value: {
      error: word,
      message: messageOf(word),
      ...(word === 'invalid_request' && { fields: [{ path: 'code', message: 'is required' }] }),
      ...(word === 'timeout' && { id: '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11' }),
    },
  };
}

const RETRY_WORDS: ProblemWord[] = ['rate_limited', 'queue_full', 'unavailable'];
const BEFORE_THE_KEY: ProblemWord[] = ['unauthorized', 'https_required', 'unavailable'];

function problemHeaders(words: ProblemWord[], keyed: boolean): string[] {
  return [
    ...(words.some((word) => RETRY_WORDS.includes(word)) ? ['Retry-After'] : []),
    ...(words.includes('timeout') ? ['Location'] : []),
    ...(words.includes('unsupported_media_type') ? ['Accept'] : []),
    ...(words.includes('method_not_allowed') ? ['Allow'] : []),
    ...(keyed && !words.every((word) => BEFORE_THE_KEY.includes(word))
      ? ['RateLimit', 'RateLimit-Policy']
      : []),
  ];
}

function headerRefs(names: string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
