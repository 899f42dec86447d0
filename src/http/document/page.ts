/** The page for people at `/`: the whole OpenAPI document, with calls to copy. It needs no script. */
import { createHash } from 'node:crypto';
import { VERDICTS } from '../../domain/verdicts.ts';
import { BY_NAME, titlesOf } from '../../languages/common/registry.ts';
import { TESTS_LIMIT } from '../api/judging_schema.ts';
import type { OpenapiDocument } from '../api/openapi_types.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import { block, code, escaped, link, prose, slug, terms } from './html.ts';
import {
  answerHeaderTerms,
  callId,
  callSection,
  callsWith,
  errorTerms,
  requestHeaderTerms,
} from './page_calls.ts';
import { schemaId, schemaSection } from './page_fields.ts';
import { PAGE_STYLE } from './page_style.ts';
import { ORIGIN, shellRun } from './shell_call.ts';

// The page needs no script, font, image or frame, so the policy allows none.
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(PAGE_STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `languages`: those of this deployment, by their canonical names. The result is called for each request. */
export function pageOf(
  document: OpenapiDocument,
  languages: readonly string[],
): (origin: string) => Answer {
  const html = htmlOf(document, languages);
  return (origin) => ({
    status: STATUS.ok,
    type: 'text/html; charset=utf-8',
    headers: { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' },
    body: Buffer.from(html.replaceAll(ORIGIN, origin)),
  });
}

function htmlOf(document: OpenapiDocument, languages: readonly string[]): string {
  const { info, tags, components } = document;
  const tagged = tags.map((tag) => ({ ...tag, calls: callsWith(tag.name, document) }));
  const schemas = Object.entries(components.schemas);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(info.title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>${escaped(info.title)}</h1>
<p>Send source code in ${escaped(titlesOf(languages, 'or'))}; get a verdict, the output, and the time and memory that it used.</p>
</header>
<nav aria-label="Contents"><ul>
<li><a href="#start">Start</a></li>
${tagged.map(({ name, calls }) => `<li>${link(tagId(name), titled(name))}<ul>${calls.map((call) => `<li>${link(callId(call), `${call.method} ${call.path}`)}</li>`).join('')}</ul></li>`).join('\n')}
<li><a href="#schemas">Bodies, field by field</a><ul>${schemas.map(([name]) => `<li>${link(schemaId(name), name)}</li>`).join('')}</ul></li>
<li><a href="#verdicts">Verdicts</a></li>
<li><a href="#errors">Errors</a></li>
<li><a href="#headers">Headers</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
</ul></nav>
<main>
${start(info.description, languages)}
${tagged
  .map(
    ({ name, description, calls }) => `<h2 id="${tagId(name)}">${escaped(titled(name))}</h2>
<p>${prose(description)}</p>
${calls.map(callSection).join('\n')}`,
  )
  .join('\n')}

<h2 id="schemas">Bodies, field by field</h2>
<p>In requests, a field that is not required may also be null, which is the same as absent.
In answers, more fields may come with a later version: ignore what you do not know.</p>
${schemas.map(([name, schema]) => schemaSection(name, schema)).join('\n')}

<h2 id="verdicts">Verdicts</h2>
${terms(Object.entries(VERDICTS).map(([name, { meaning }]) => [code(name), prose(meaning)]))}

<h2 id="errors">Errors</h2>
<p>With ${code('400')} each mistake is in ${code('fields')}. Quote the
${code('X-Request-Id')} when you ask us about an answer. With ${code('429')} and ${code('503')}, ${code('Retry-After')} is the
number of seconds to wait.</p>
${terms(errorTerms(document))}

<h2 id="headers">Headers</h2>
<h3>In requests</h3>
${terms(requestHeaderTerms(document))}
<h3>In answers</h3>
${terms(answerHeaderTerms(document))}
</main>
</body>
</html>
`;
}

const tagId = (name: string): string => `tag-${slug(name)}`;

/** "test sets" -> "Test sets" */
const titled = (name: string): string => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;

function start(description: string, languages: readonly string[]): string {
  const [first] = languages;
  const tests = [{ expected_output: '42' }, { name: 'wrong', expected_output: '43' }];
  return `<h2 id="start">Start</h2>
<p>${prose(description)} The calls below work in bash and zsh.</p>
${block('export RUNLEDGER_API_KEY=...')}
<h3>Run something</h3>
${block(shellRun(helloIn(first)))}
<h3>Run it later</h3>
<p>Without ${code('wait')} the answer is ${code('202')} with an id, at once. ${link('call-submit', 'POST /api/submit')} has the call,
and ${link('call-result', 'GET /api/result/{id}')} waits for the result. With an ${code('Idempotency-Key')} a call can be repeated
safely: it never runs twice.</p>
<h3>Judge it</h3>
<p>One submission can have up to ${TESTS_LIMIT} tests: it is compiled once and has one verdict, and each test has its own.
A comparison can allow for small differences of numbers, and a checker or an interactor of yours can judge
instead; ${link('call-submit', 'POST /api/submit')} has an example of each. Larger tests are
${link('call-uploadTestSet', 'stored once')}, and submissions name the stored set.</p>
${block(shellRun({ ...helloIn(first), tests, stop: 'never' }))}`;
}

const helloIn = (name: string | undefined): object => ({
  language: name,
  code: BY_NAME.get(name ?? '')?.hello ?? '',
});
