/** The page at `/` has the whole OpenAPI document, and is HTML that needs no script. test/cli sends its calls. */
import { createHash } from 'node:crypto';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { calls } from '../../src/http/api/calls.ts';
import type { OpenapiDocument, Schema } from '../../src/http/api/openapi_types.ts';
import { submissionRules } from '../../src/http/api/submission_rules.ts';
import { openapiDocument } from '../../src/http/document/openapi.ts';
import { pageOf } from '../../src/http/document/page.ts';
import { PROBLEM_WORDS } from '../../src/http/wire/problem.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { wellFormed } from './support/well_formed.ts';

const names = LANGUAGES.map(({ name }) => name);
const config = loadConfig({ RUNLEDGER_LANGUAGES: names.join() });
const webhooks = { urlProblem: () => null, encrypt: () => null as never };
const document = openapiDocument(calls, submissionRules(config, webhooks));

function render(shown: OpenapiDocument): { html: string; policy: string } {
  const { body, headers } = pageOf(shown, config.languages)('https://x.example');
  const html = Buffer.from(body as Uint8Array).toString();
  return { html, policy: String(headers?.['Content-Security-Policy']) };
}

const { html, policy } = render(document);
const escaped = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');

t.test('everything of the document is on the page', async (t) => {
  const codes = new Set([...html.matchAll(/<code>([^<]*)<\/code>/g)].map(([, text]) => text));
  const has = (text: string) => t.ok(codes.has(escaped(text)), text);
  const plain = (text: string) =>
    t.ok(html.includes(escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>')), text);
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      has(`${method.toUpperCase()} ${path}`);
      plain(operation.summary);
      plain(operation.description);
      for (const { name, description } of operation.parameters ?? []) {
        has(name);
        plain(description);
      }
      for (const [status, { description, content = {} }] of Object.entries(operation.responses)) {
        has(status);
        plain(description);
        if (status < '300')
          for (const type of Object.keys(content)) t.ok(html.includes(type), type);
      }
      for (const { examples = {} } of Object.values(operation.requestBody?.content ?? {})) {
        for (const { value } of Object.values(examples)) plain(JSON.stringify(value, null, 2));
      }
    }
  }
  for (const word of PROBLEM_WORDS) has(word);
  for (const { name, description } of document.tags)
    t.ok(html.includes(name.slice(1)) && html.includes(description));
  for (const [name, { description }] of Object.entries(document.components.headers)) {
    has(name);
    plain(description);
  }
  has('X-API-Key');
  const walk = (schema: Schema, at: string): void => {
    for (const word of schema.enum ?? []) has(String(word));
    for (const bound of [schema.minimum, schema.maximum, schema.maxLength, schema.maxItems]) {
      if (bound !== undefined)
        t.ok(html.includes(bound.toLocaleString('en', { maximumFractionDigits: 6 })), at);
    }
    if (schema.description) plain(schema.description);
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      has(`${at}${at && '.'}${name}`);
      walk(field, `${at}${at && '.'}${name}`);
    }
    if (schema.items) walk(schema.items, `${at}[]`);
    for (const choice of schema.anyOf ?? []) walk(choice, at);
  };
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    has(name);
    walk(schema, '');
  }
});

t.test('it is well-formed, and can be read without a script', async (t) => {
  wellFormed(t, html);
  const [, style] = /<style>([^<]*)<\/style>/.exec(html)!;
  const hash = createHash('sha256').update(style!).digest('base64');
  t.ok(policy.includes(`'sha256-${hash}'`), 'the policy allows its style');
  t.match(policy, /^default-src 'none'; /);
  t.notMatch(html, /<script|<img|<iframe|<form| style=| on[a-z]+=|@import|url\(/i);
  t.notMatch(html, /\{origin\}/);
  const levels = [...html.matchAll(/<h([1-6])/g)].map(([, level]) => Number(level));
  t.equal(levels[0], 1);
  t.equal(levels.filter((level) => level === 1).length, 1);
  t.ok(
    levels.every((level, n) => n === 0 || level <= levels[n - 1]! + 1),
    'no heading skips a level',
  );
});

const TEXTS = ['description', 'summary', 'message', 'pattern', 'format'];

t.test('text of the document is text on the page, whatever it is', async (t) => {
  const odd = '<b onclick="x">&amp;\'</b>';
  const hostile = JSON.parse(JSON.stringify(document), (name, value) =>
    typeof value === 'string' && TEXTS.includes(name) ? odd : value,
  ) as OpenapiDocument;
  hostile.paths[`/${odd}`] = {
    get: { ...Object.values(Object.values(document.paths)[0]!)[0]!, operationId: 'odd' },
  };
  hostile.components.schemas['Result']!.properties![odd] = { enum: [odd] };
  const { html } = render(hostile);
  wellFormed(t, html);
  t.ok(html.includes(escaped(odd)));
  t.notMatch(html, /<b |onclick="/);
});
