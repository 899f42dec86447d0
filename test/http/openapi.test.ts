/** The OpenAPI document is valid and complete, and its examples work. */
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import * as v from 'valibot';
import { loadConfig } from '../../src/config.ts';
import { calls } from '../../src/http/api/calls.ts';
import type { Schema } from '../../src/http/api/openapi_types.ts';
import type { RequestExample } from '../../src/http/api/operation.ts';
import { submissionRules } from '../../src/http/api/submission_rules.ts';
import { submissionSchema } from '../../src/http/api/submission_schema.ts';
import { openapiDocument } from '../../src/http/document/openapi.ts';
import { PROBLEM_WORDS } from '../../src/http/wire/problem.ts';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { seal } from '../store/seal_now.ts';
import { call, type Reply } from './support/call.ts';
import {
  answersOf,
  type Document,
  disagreements,
  isObjectSchema,
  type Operation,
  readDocument,
  withClosedAnswers,
} from './support/document.ts';
import { HELLO, startService } from './support/service.ts';

/** Of the tests that only ask for the document, or for what rejects a parameter. */
const service = await startService(t, { webs: 1 });

t.test('the document', async (t) => {
  const document = await readDocument(service.webs[0]!.origin);
  const found = await new Validator().validate(structuredClone(document.json));
  t.equal(found.valid, true, JSON.stringify(found.errors));
  t.equal(document.json.openapi, '3.1.0');

  const documented = Object.entries(document.json.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const served = calls.map(({ method, path }) => `${method} ${path}`);
  t.same(documented.sort(), served.sort(), 'it has the addresses that are served, and no others');
  const words = new Set(calls.flatMap(({ operation }) => operation.problems));
  t.same([...words].sort(), [...PROBLEM_WORDS].sort(), 'and every word of an error');
});

// What the recommended rules of Spectral and Redocly ask for; CONTRIBUTING says how to run the two.
t.test('the document is as linters want it', async (t) => {
  const { json, checkSchema } = await readDocument(service.webs[0]!.origin);
  t.ok(Object.keys(json.info.contact).length && Object.keys(json.info.license).length);
  t.ok(json.info.description && json.servers.length > 0);
  const operations = Object.values(json.paths).flatMap((methods) => Object.values(methods));

  const tags = new Set(json.tags.map(({ name }) => name));
  t.ok(json.tags.every(({ description }) => description.endsWith('.')));
  t.same(new Set(operations.flatMap((each) => each.tags)), tags, 'the tags are those in use');
  const ids = operations.map(({ operationId }) => operationId);
  t.equal(new Set(ids).size, ids.length);
  for (const { operationId, summary, description, responses, parameters = [] } of operations) {
    t.match(operationId, /^[A-Za-z]+$/, 'can be a name in a program and in a URL');
    t.ok(summary && !summary.endsWith('.') && description.endsWith('.'), operationId);
    t.ok(
      Object.keys(responses).some((status) => status.startsWith('4')),
      operationId,
    );
    for (const { name, description, example, schema } of parameters) {
      t.ok(description.endsWith('.'), `${operationId} ${name}`);
      t.ok(checkSchema(schema, example), `${operationId} ${name}`);
    }
  }

  const text = JSON.stringify(json);
  const refs = new Set([...text.matchAll(/"\$ref":"#\/components\/([^"]+)"/g)].map(([, to]) => to));
  const { securitySchemes: _, ...referred } = json.components;
  const components = Object.entries(referred).flatMap(([kind, named]) =>
    Object.keys(named).map((name) => `${kind}/${name}`),
  );
  t.same(refs, new Set(components), 'each component is used, and each that is used is there');
});

t.test('answers may get fields, and requests have no others', async (t) => {
  const document = await readDocument(service.webs[0]!.origin);
  const schemas = (json: Document['json']) => json.components['schemas']!;
  const answers = answersOf(document.json);
  const requests = Object.keys(schemas(document.json)).filter((name) => !answers.includes(name));
  t.same(requests, ['SubmissionRequest', 'BatchItem']);
  for (const name of requests)
    t.same(new Set(boundsIn(schemas(document.json)[name])), new Set([false]), name);
  for (const name of answers)
    t.same(
      boundsIn(schemas(document.json)[name]).filter((bound) => bound !== undefined),
      [],
      name,
    );

  const strict = schemas(withClosedAnswers(document.json));
  for (const name of answers)
    t.notOk(boundsIn(strict[name]).includes(undefined), `${name} is closed in tests`);
  const problem = { error: 'not_found', message: 'x' };
  t.ok(document.check('Problem', problem));
  t.notOk(
    document.check('Problem', { ...problem, later: 1 }),
    'tests find a field that is not documented',
  );
  const inner = { ...problem, fields: [{ path: '', message: '', later: 1 }] };
  t.notOk(document.check('Problem', inner), 'and one of an inner object');
});

/** What each object of a schema says about names that it does not have. */
function boundsIn(schema: unknown): unknown[] {
  const found: unknown[] = [];
  JSON.stringify(schema, (_, value) => {
    if (isObjectSchema(value)) found.push(value['additionalProperties']);
    return value;
  });
  return found;
}

t.test(
  'a parameter that a call does not have is rejected, or ignored by what monitors ask',
  async (t) => {
    const { origin } = service.webs[0]!;
    const key = await service.key();
    await service.worker.beat();
    const id = '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10';
    const json = { 'content-type': 'application/json' };
    const sent: Record<string, { body: string | Uint8Array; headers: Record<string, string> }> = {
      submit: { body: JSON.stringify(HELLO), headers: json },
      submitAll: { body: JSON.stringify([HELLO]), headers: json },
      uploadTestSet: { body: archiveOf(LEGACY), headers: { 'content-type': 'application/zip' } },
    };
    for (const { method, path, operation, keyed } of calls) {
      const { id: name, tag } = operation;
      const target = `${path.replace('{id}', id)}?waitt=true&_=1`;
      const reply = await call(origin, {
        method,
        path: target,
        ...(keyed && { key }),
        ...sent[name],
      });
      if (tag === 'submissions' || tag === 'test sets') {
        t.equal(reply.status, 400, name);
        t.same(
          reply.json.fields.map((field: { path: string }) => field.path),
          ['?waitt', '?_'],
          name,
        );
      } else t.equal(reply.status, 200, name);
    }
  },
);

t.test('a field that a deployment forbids is nowhere in its requests', async (t) => {
  const forbidden = ['args', 'expected_output', 'files', 'limits', 'stdin_base64'];
  const rules = submissionRules(loadConfig({}), null);
  const namesIn = ({ properties = {}, items, anyOf = [] }: Schema): string[] => [
    ...Object.keys(properties),
    ...[...Object.values(properties), ...(items ? [items] : []), ...anyOf].flatMap(namesIn),
  ];
  const names = (forbidden: string[]) => {
    const { schemas } = openapiDocument(calls, { ...rules, forbidden }).components;
    return [schemas['SubmissionRequest']!, schemas['BatchItem']!].map(
      (schema) => new Set(namesIn(schema)),
    );
  };
  for (const all of names([]))
    t.ok(all.isSupersetOf(new Set([...forbidden, 'expected_output_base64'])));
  for (const all of names(forbidden))
    t.same(
      [...all].filter((name) => forbidden.includes(name.replace(/_base64$/, ''))),
      [],
    );
});

t.test('answers name languages as texts, and requests those of the deployment', (t) => {
  const all = submissionRules(loadConfig({}), null);
  const { schemas } = openapiDocument(calls, { ...all, languages: ['python'] }).components;
  const { Languages, Toolchains, Result } = schemas as Record<string, Schema>;
  const shown = [
    Languages!.items,
    Toolchains!.items!.properties!['name'],
    Result!.properties!['language'],
  ];
  for (const schema of shown) {
    t.match(schema, { type: 'string', description: /\bpython\b/ });
    t.notOk('enum' in schema!, 'a client that is made today reads a language that comes later');
  }
  t.notMatch(Languages!.items!.description, /cpp/);
  t.match(Result!.properties!['language']!.description, /\bcpp\b/, 'that of an older record');
  const same = openapiDocument(calls, all).components.schemas;
  const of = (each: Record<string, object>) => JSON.stringify(answersIn(each));
  const named = / The names: [^"]*/g;
  t.equal(
    of(same).replace(named, ''),
    of(schemas).replace(named, ''),
    'nothing else depends on it',
  );
  const { language } = (schemas['SubmissionRequest'] as Schema).properties!;
  t.ok(language!.enum!.includes('python') && !language!.enum!.includes('cpp'));
  const { description } = openapiDocument(calls, all).info;
  t.match(description, /may add fields to answers, and values to their enums/);
  t.end();
});

const answersIn = ({ SubmissionRequest: _, BatchItem: __, ...answers }: Record<string, object>) =>
  answers;

t.test('it says what encoding=base64 changes', (t) => {
  const rules = submissionRules(loadConfig({}), null);
  const { paths, components } = openapiDocument(calls, rules);
  const { parameters = [] } = paths['/api/result/{id}']!['get']!;
  const encoding = parameters.find((each) => 'name' in each && each.name === 'encoding');
  t.match(encoding, { description: /stdout and stderr, those of each test, and transcript/ });
  const { stdout, stderr, transcript, tests } = components.schemas['Result']!.properties!;
  const of_test = tests!.items!.properties!;
  for (const each of [stdout, of_test['stdout'], of_test['stderr'], transcript])
    t.match(each!.description, /with encoding=base64/);
  t.match(stderr!.description, /^As stdout/);
  t.end();
});

t.test('each example of a request that it calls right is right for this deployment', (t) => {
  const env = { RUNLEDGER_LIMITS_CPU_MAX: '500ms', RUNLEDGER_LIMITS_CPU: '500ms' };
  const rules = submissionRules(loadConfig(env), null);
  const { paths } = openapiDocument(calls, rules);
  for (const path of ['/api/submit', '/api/submissions']) {
    const { examples } = paths[path]!['post']!.requestBody!.content['application/json']!;
    const requests = examples as Record<string, RequestExample>;
    for (const [name, { value, 'x-answer': answer }] of Object.entries(requests)) {
      if (answer !== '202') continue;
      for (const one of [value].flat()) t.ok(v.is(submissionSchema(rules), one), `${path} ${name}`);
    }
    if (path === '/api/submit') t.notOk('tests' in requests, 'one asks for a second');
  }
  t.end();
});

t.test('its examples', async (t) => {
  const env = { RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64') };
  const service = await startService(t, { webs: 1, env });
  const { origin } = service.webs[0]!;
  const document = await readDocument(origin);
  const key = await service.key();
  const submit = document.operation('post', '/api/submit');

  t.test('of requests get the answer that they announce', async (t) => {
    const examples = Object.entries(submit.requestBody!.content['application/json'].examples);
    t.ok(examples.length >= 6);
    for (const [name, example] of examples) {
      const reply = await service.submit(key, example.value);
      t.equal(String(reply.status), example['x-answer'], `${name}: ${reply.text}`);
      agrees(t, document, submit, reply, name);
      t.ok(document.check('SubmissionRequest', example.value), `${name} is valid`);
    }
  });

  t.test('a body is accepted just if its schema has it', async (t) => {
    const program = { language: 'py', code: '', protocol: 'icpc' };
    const file = (path: string) => ({ path, content: '' });
    const test_set = '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11';
    const webhook = { webhook_url: 'https://hooks.example.com/', webhook_secret: 'x' };
    const right: object[] = [
      {},
      { stdin: '', stdin_base64: null, tests: null, test_set: null, expected_output: '' },
      { stdin_base64: 'AAA=', compare: 'exact', stdin_file: 'in', stdout_file: 'out' },
      { tests: [{ stdin: '', expected_output_base64: 'AAAA' }], stop: 'never' },
      { interactor: program, transcript: true, files: [file('a')] },
      { interactor: program, transcript: false, outputs: ['*'] },
      { checker: { ...program, files: [{ path: 'a', content: null, content_base64: '' }] } },
      ...['a', '.a', '..a', '...', 'a/.b', 'a..', 'é/\n', Array(16).fill('a').join('/')].map(
        (path) => ({ files: [file(path)] }),
      ),
      { outputs: ['*', 'a*b*', '*/*'] },
      { stdin_file: 'a*', files: [file('b*')] },
      { ...webhook, stop: null },
    ];
    const wrong: object[] = [
      { stdin: '', stdin_base64: '' },
      ...['stdin', 'stdin_base64', 'expected_output'].flatMap((name) => [
        { [name]: '', tests: [{}] },
        { [name]: '', test_set },
      ]),
      { tests: [{}], test_set },
      { outputs: [], tests: [{}] },
      { outputs: [], test_set },
      { compare: 'exact', checker: program },
      { compare: 'exact', interactor: program },
      { interactor: program, checker: program },
      { interactor: program, stdin_file: 'a' },
      { interactor: program, stdout_file: 'a' },
      { stop: 'first' },
      { transcript: false },
      { transcript: true, interactor: program, outputs: ['*'] },
      { webhook_url: webhook.webhook_url },
      { webhook_secret: webhook.webhook_secret, webhook_url: null },
      { tests: [{ stdin: '', stdin_base64: '' }] },
      { tests: [{}, { expected_output: '', expected_output_base64: '' }] },
      { files: [file('a'), file('a')] },
      { files: [{ path: 'a' }] },
      { files: [{ path: 'a', content: null }] },
      { files: [{ path: 'a', content: '', content_base64: '' }] },
      { checker: { ...program, files: [{ path: 'a' }] } },
      ...['', '.', '..', '/a', 'a/', 'a//b', 'a/./b', '../a', 'a\0', `${'a/'.repeat(16)}a`].flatMap(
        (path) => [{ files: [file(path)] }, { stdin_file: path }, { outputs: [path] }],
      ),
      { outputs: ['a**'] },
      { stdout_file: 'a*' },
      ...['A', 'AAAA=', 'A===', 'AA-_', 'AAAA\n'].map((stdin_base64) => ({ stdin_base64 })),
      ...['', 'a\n', '\u0085'].map((name) => ({ tests: [{ name }] })),
    ];
    for (const [wanted, bodies] of [
      [true, right],
      [false, wrong],
    ] as const) {
      for (const body of bodies) {
        const whole = { language: 'python', code: '', ...body };
        const reply = await service.submit(key, whole);
        t.equal(reply.status, wanted ? 202 : 400, `${JSON.stringify(body)}: ${reply.text}`);
        t.equal(document.check('SubmissionRequest', whole), wanted, JSON.stringify(body));
      }
    }
  });

  t.test('a header is accepted just if its schema has the value', async (t) => {
    const id = '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10';
    const values: Record<string, string[]> = {
      'Idempotency-Key': [
        id,
        `"${id}"`,
        id.toUpperCase(),
        '',
        '""',
        `"${id}`,
        `urn:uuid:${id}`,
        'x',
      ],
      Prefer: ['wait=0', 'respond-async, Wait="0";a=b', 'wait', 'wait=-1', '', ',,'],
      traceparent: ['', '00', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-00`, `ff-${'1'.repeat(32)}`],
    };
    for (const { name, in: place, schema } of submit.parameters ?? []) {
      if (place !== 'header') continue;
      for (const value of values[name]!) {
        const reply = await service.submit(key, HELLO, { headers: { [name]: value } });
        const valid = document.checkSchema(schema, value);
        t.equal(reply.status, valid ? 202 : 400, `${name}: ${value}`);
      }
    }
  });

  t.test('of parameters are accepted', async (t) => {
    const headers: Record<string, string> = {};
    for (const parameter of submit.parameters ?? []) {
      if (parameter.in === 'header') headers[parameter.name] = String(parameter.example);
    }
    const query = new URLSearchParams();
    for (const parameter of submit.parameters ?? []) {
      if (parameter.in === 'query') query.set(parameter.name, String(parameter.example));
    }
    const path = `/api/submit?${query}`;
    const first = await service.submit(key, HELLO, { path, headers });
    t.equal(first.status, 202);
    const again = await service.submit(key, HELLO, { path, headers });
    t.equal(again.headers['idempotency-replayed'], 'true');
    agrees(t, document, submit, again, 'replayed');
  });

  t.test('of answers match their schemas', async (t) => {
    for (const [path, operations] of Object.entries(document.json.paths)) {
      for (const operation of Object.values(operations)) {
        for (const [status, response] of Object.entries(operation.responses)) {
          for (const [type, { schema, examples }] of Object.entries(response.content ?? {})) {
            if (type !== 'application/json') continue;
            for (const [name, { value }] of Object.entries(examples ?? {})) {
              t.ok(document.checkSchema(schema, value), `${path} ${status} ${name}`);
            }
          }
        }
      }
    }
  });

  t.test('of answers match the same choice in a client, which takes the first', async (t) => {
    const asClient = await readDocument(origin, (json) => json);
    const at = '#/components/schemas/BatchAnswer/items/anyOf';
    const of_batch = [0, 1, 2].map((n) => ({ $ref: `${at}/${n}` }));
    const answers = (path: string) => {
      const { content } = document.operation('post', path).responses['202']!;
      const { schema, examples } = content!['application/json']!;
      const values = Object.values(examples!).map(({ value }) => value);
      return { choices: (schema as { anyOf?: object[] }).anyOf ?? of_batch, values };
    };
    const { choices, values: batches } = answers('/api/submissions');
    for (const one of [answers('/api/submit'), { choices, values: batches.flat() }]) {
      t.equal(one.values.length, one.choices.length, 'there is one of each');
      for (const value of one.values) {
        const first = (by: Document) =>
          one.choices.findIndex((each) => by.checkSchema(each, value));
        t.equal(first(asClient), first(document), JSON.stringify(value));
      }
    }
  });

  t.test('every address answers as its schema describes', async (t) => {
    const { json } = await service.submit(key);
    await service.worker.finish(json.id);
    while ((await call(origin, { path: `/api/result/${json.id}/proof`, key })).status === 202) {
      await seal(service.db);
    }
    const archive = { body: archiveOf(LEGACY), headers: { 'content-type': 'application/zip' } };
    const uploading = { method: 'POST', path: '/api/test-sets', key, ...archive };
    const uploaded = [await call(origin, uploading), await call(origin, uploading)];
    t.same(
      uploaded.map(({ status }) => status),
      [201, 200],
    );
    const set = uploaded[0]!.json.id;
    for (const reply of uploaded) {
      agrees(t, document, document.operation('post', '/api/test-sets'), reply, 'an upload');
    }
    for (const { method, path } of calls) {
      if (method !== 'GET') continue;
      const operation = document.operation('get', path);
      const url = path.replace('{id}', path.startsWith('/api/test-sets') ? set : json.id);
      const asked = path.startsWith('/api/') ? { path: url, key } : { path: url };
      await service.worker.beat();
      const reply = await call(origin, asked);
      t.equal(reply.status, 200, path);
      agrees(t, document, operation, reply, path);
      if (path.startsWith('/api/')) {
        agrees(t, document, operation, await call(origin, { path: url }), `${path} without a key`);
      }
    }
    const one = { method: 'DELETE', path: `/api/test-sets/${set}`, key };
    for (const status of [204, 404]) {
      const reply = await call(origin, one);
      t.equal(reply.status, status);
      agrees(t, document, document.operation('delete', '/api/test-sets/{id}'), reply, 'a deletion');
    }
  });
});

/** The document has the status, the shape of the body, and each header of the answer. */
function agrees(
  t: Tap.Test,
  document: Document,
  operation: Operation,
  reply: Reply,
  what: string,
): void {
  t.same(disagreements(document, operation, reply), [], `${what}: ${reply.text}`);
}

declare namespace Tap {
  type Test = { same(found: unknown, wanted: unknown, message: string): void };
}
