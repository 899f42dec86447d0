/** The OpenAPI 3.1 document, made from the list of calls and the schemas that validate. */
import { toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { BY_NAME, CANONICAL_NAMES } from '../../languages/common/registry.ts';
import type { ApiCall } from '../api/api_call.ts';
import { forbiddenPaths, removeForbidden } from '../api/forbidden_fields.ts';
import type {
  Example,
  OpenapiDocument,
  OperationObject,
  ResponseObject,
  Schema,
} from '../api/openapi_types.ts';
import {
  EXAMPLE_ID,
  RATE,
  RESPONSE_HEADERS,
  type RequestExample,
  type Success,
  TAGS,
} from '../api/operation.ts';
import { PROBLEM } from '../api/problem_schema.ts';
import { type SubmissionRules, submissionSchema } from '../api/submission_schema.ts';
import { type ProblemWord, problemOf } from '../wire/problem.ts';

export function openapiDocument(
  calls: readonly ApiCall[],
  rules: SubmissionRules,
): OpenapiDocument {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Runledger',
      version: '1.0.0',
      contact: { name: 'The operator of this service' },
      license: { name: 'MIT', url: 'https://spdx.org/licenses/MIT.html' },
      description:
        'Runs submitted source code and keeps a record of every run. All addresses are served over HTTPS only. Every call under /api/ needs a key and counts against its rate. Every error is JSON with a stable word in `error`; every answer has an `X-Request-Id`. A later version may add fields to answers, and values to their enums (the words of errors, verdicts, statuses and outcomes): ignore fields that you do not know, and let no such value stop your program. A call about submissions or test sets rejects a query parameter that it does not have; all other calls ignore the query, because monitors and routers add parameters of their own.',
    },
    servers: [{ url: '/', description: 'The service that this document comes from.' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: pathsOf(calls, rules),
    components: {
      securitySchemes: {
        key: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description:
            'Keep it on your own servers; do not put it into code that runs in browsers.',
        },
      },
      schemas: {
        SubmissionRequest: requestSchemaHere(rules),
        BatchItem: batchItemHere(rules),
        ...answerSchemas(calls, rules),
      },
      headers: RESPONSE_HEADERS,
    },
  };
}

function answerSchemas(calls: readonly ApiCall[], rules: SubmissionRules): Record<string, Schema> {
  const named = calls.flatMap((call) =>
    successOf(call, rules).flatMap(({ schemas }) => Object.entries(schemas)),
  );
  const all = [...new Map([...named, ['Problem', PROBLEM as v.GenericSchema]])];
  return Object.fromEntries(all.map(([name, schema]) => [name, answerSchemaOf(schema)]));
}

function successOf({ operation }: ApiCall, rules: SubmissionRules): readonly Success[] {
  const { success } = operation;
  return typeof success === 'function' ? success(rules) : success;
}

/** JSON Schema has no words for these checks; the descriptions state them. */
const NOT_IN_JSON_SCHEMA = ['check', 'raw_check', 'max_bytes'];

/** Open, because a later version may add a field: a client that is made from this document must not reject it. */
function answerSchemaOf(schema: v.GenericSchema): Schema {
  const isClosed = (name: string, value: unknown) =>
    name === 'additionalProperties' && value === false;
  const text = JSON.stringify(jsonSchemaOf(schema));
  return JSON.parse(text, (name, value) => (isClosed(name, value) ? undefined : value));
}

function jsonSchemaOf(schema: v.GenericSchema): Schema {
  const { $schema: _, ...converted } = toJsonSchema(schema, {
    target: 'draft-2020-12',
    errorMode: 'throw',
    ignoreActions: NOT_IN_JSON_SCHEMA,
    overrideSchema: ({ jsonSchema }) => nullableInOne(jsonSchema),
  });
  return converted as Schema;
}

/** Generators of clients and readers understand `type: [string, null]` better than a choice of two schemas. */
function nullableInOne(schema: object): object | undefined {
  const { anyOf, ...others } = schema as { anyOf?: { type?: unknown; enum?: unknown[] }[] };
  const [value, none] = anyOf ?? [];
  if (value === undefined || anyOf?.length !== 2 || none?.type !== 'null') return undefined;
  if (typeof value.type !== 'string') return undefined;
  const words = value.enum && { enum: [...value.enum, null] };
  return { ...others, ...value, type: [value.type, 'null'], ...words };
}

/** Without the fields and languages that this deployment does not accept. */
function requestSchemaHere(rules: SubmissionRules): Schema {
  const schema = jsonSchemaOf(submissionSchema(rules));
  removeForbidden(rules.forbidden, schema);
  return schema;
}

/** A submission, with its Idempotency-Key as a field. */
function batchItemHere(rules: SubmissionRules): object {
  const schema = requestSchemaHere(rules) as { properties: object };
  const idempotency_key = {
    type: ['string', 'null'],
    format: 'uuid',
    description: 'As the header Idempotency-Key of a submission alone.',
  };
  return { ...schema, properties: { ...schema.properties, idempotency_key } };
}

/** Only examples that this deployment answers as they announce. */
function examplesHere(
  examples: Record<string, RequestExample>,
  rules: SubmissionRules,
): Record<string, RequestExample> {
  const { forbidden, languages } = rules;
  const schema = submissionSchema(rules);
  const works = ([, { value, 'x-answer': answer }]: [string, RequestExample]) => {
    const language = CANONICAL_NAMES.get((value as { language: string }).language)!;
    if (!languages.includes(language)) return false;
    if (answer !== '202') return true;
    return forbiddenPaths(forbidden, value).length === 0 && v.is(schema, value);
  };
  const all = [...languages.map(helloIn), ...Object.entries(examples)];
  return Object.fromEntries(all.filter(works));
}

function helloIn(name: string): [string, RequestExample] {
  const { title, hello } = BY_NAME.get(name)!;
  const summary = `The shortest submission in ${title}`;
  return [name, { summary, value: { language: name, code: hello }, 'x-answer': '202' }];
}

function twoHellos({ languages }: SubmissionRules): RequestExample {
  // Without keys: one that is printed here would be used twice, and what is sent the second time would not run.
  const value = languages.slice(0, 2).map((name) => helloIn(name)[1].value);
  return { summary: 'A program in each of two languages', value, 'x-answer': '202' };
}

function pathsOf(calls: readonly ApiCall[], rules: SubmissionRules): OpenapiDocument['paths'] {
  const paths: OpenapiDocument['paths'] = {};
  for (const call of calls) {
    paths[call.path] = {
      ...paths[call.path],
      [call.method.toLowerCase()]: operationObject(call, rules),
    };
  }
  return paths;
}

function operationObject(call: ApiCall, rules: SubmissionRules): OperationObject {
  const { id, tag, summary, description, parameters, request, batch, upload } = call.operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    security: call.keyed ? [{ key: [] }] : [],
    ...(parameters !== undefined && { parameters }),
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
    ...(batch !== undefined && {
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              type: 'array',
              minItems: 1,
              maxItems: batch.at_most,
              items: { $ref: '#/components/schemas/BatchItem' },
            },
            examples: { two: twoHellos(rules) },
          },
        },
      },
    }),
    ...(upload !== undefined && {
      requestBody: {
        required: true,
        description: upload.description,
        content: { [upload.type]: { schema: { type: 'string', format: 'binary' } } },
      },
    }),
    responses: { ...successResponses(successOf(call, rules)), ...problemResponses(call) },
  };
}

function successResponses(all: readonly Success[]): Record<string, ResponseObject> {
  return Object.fromEntries(
    all.map(({ status, description, schemas, type = 'application/json', headers, examples }) => {
      const refs = Object.keys(schemas).map((name) => ({ $ref: `#/components/schemas/${name}` }));
      if (type === null)
        return [status, { description, headers: headerRefs(['X-Request-Id', ...headers]) }];
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
    }),
  );
}

/** Problems that share a status (503) share a response. */
function problemResponses({ operation, keyed }: ApiCall): Record<string, ResponseObject> {
  const byStatus = Map.groupBy(operation.problems, (word) => problemOf(word).status);
  return Object.fromEntries(
    [...byStatus].map(([status, words]) => [
      String(status),
      {
        description: words.map((word) => `\`${word}\`: ${problemOf(word).message}`).join(' '),
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

function problemExample(word: ProblemWord): Example {
  return {
    value: {
      error: word,
      message: problemOf(word).message,
      ...(word === 'invalid_request' && { fields: [{ path: 'code', message: 'is required' }] }),
      ...(word === 'timeout' && { id: EXAMPLE_ID }),
    },
  };
}

function problemHeaders(words: readonly ProblemWord[], keyed: boolean): string[] {
  const own = words.flatMap((word) => problemOf(word).headers ?? []);
  const rated = keyed && !words.every((word) => problemOf(word).before_key);
  return [...new Set(own), ...(rated ? RATE : [])];
}

function headerRefs(names: readonly string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
