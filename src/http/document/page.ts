/** The page for people at `/`: what the API does, with calls to copy. */
import { createHash } from 'node:crypto';
import { VERDICTS } from '../../domain/verdicts.ts';
import { BY_NAME, titlesOf } from '../../languages/common/registry.ts';
import type { ApiCall } from '../api/api_call.ts';
import { TESTS_LIMIT } from '../api/judging_schema.ts';
import { type Answer, STATUS } from '../wire/answer.ts';

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { margin: 0; font-size: 1.8rem; } h1 + p { margin-top: .2rem; opacity: .8; }
h2 { margin-top: 2.2rem; font-size: 1.15rem; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; user-select: all; font-size: .85rem; line-height: 1.45; }
code { font-family: ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
td, th { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
nav a { margin-right: 1.2rem; }
`;

// The page needs no script, font, image or frame, so the policy allows none.
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const VERDICT_ROWS = Object.entries(VERDICTS).map(
  ([name, { meaning }]) => [name, meaning] as const,
);

/** `languages`: those of this deployment, by their canonical names. */
export function page(
  calls: readonly ApiCall[],
  languages: readonly string[],
  origin: string,
): Answer {
  return {
    status: STATUS.ok,
    type: 'text/html; charset=utf-8',
    headers: { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' },
    body: Buffer.from(html(calls, languages, origin)),
  };
}

function html(calls: readonly ApiCall[], languages: readonly string[], origin: string): string {
  const [first, second = first] = languages;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Runledger</title>
<style>${STYLE}</style>
<h1>Runledger</h1>
<p>Send source code in ${escaped(titlesOf(languages, 'or'))}; get a verdict, the output, and the time and memory that it used.</p>
<nav><a href="/openapi.json">OpenAPI document</a><a href="/livez">live</a><a href="/readyz">ready</a></nav>

<h2>Run something</h2>
<p>Every call under <code>/api/</code> needs your key. Keep it on your own servers.</p>
<pre><code>export RUNLEDGER_API_KEY=...</code></pre>
<pre><code>${curl(origin, '/api/submit?wait=true', helloIn(first))}</code></pre>

<h2>Run it later</h2>
<p>Without <code>wait</code> the answer is <code>202</code> with an id, at once. With an
<code>Idempotency-Key</code> a call can be repeated safely: it never runs twice.</p>
<pre><code>${curl(origin, '/api/submit', helloIn(second), 'Idempotency-Key: 0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10')}</code></pre>
<pre><code>curl ${origin}/api/result/ID?wait=true -H "X-API-Key: $RUNLEDGER_API_KEY"</code></pre>

<h2>Judge it</h2>
<p>One submission can have up to ${TESTS_LIMIT} tests: it is compiled once and has one verdict, and each test has its own.
A comparison can allow for small differences of numbers, and a checker or an interactor of yours can judge
instead; the <a href="/openapi.json">document</a> has an example of each.</p>
<pre><code>${curl(origin, '/api/submit?wait=true', testsIn(first))}</code></pre>
<p>Larger tests are stored once, as a problem package or as an archive of <code>NAME.in</code> and
<code>NAME.ans</code>. A submission names the stored set by its id: <code>"test_set": "ID"</code>.</p>
<pre><code>curl '${origin}/api/test-sets' \
  -H "X-API-Key: $RUNLEDGER_API_KEY" \
  -H 'Content-Type: application/zip' \
  --data-binary @problem.zip</code></pre>

<h2>Endpoints</h2>
<table>${rows(endpointRows(calls))}</table>

<h2>Verdicts</h2>
<table>${rows(VERDICT_ROWS)}</table>

<h2>Errors</h2>
<p>Every error is JSON: a stable word in <code>error</code>, a sentence in <code>message</code>, and for a
<code>400</code> each mistake in <code>fields</code>. Every answer has an <code>X-Request-Id</code>:
quote it when you ask us about one. With <code>429</code> and <code>503</code>, <code>Retry-After</code> is the number
of seconds to wait.</p>
</html>
`;
}

function helloIn(name: string | undefined): string {
  const code = BY_NAME.get(name ?? '')?.hello ?? '';
  return `{"language": ${JSON.stringify(name)}, "code": ${JSON.stringify(code)}}`;
}

function testsIn(name: string | undefined): string {
  const tests = [{ expected_output: '42' }, { name: 'wrong', expected_output: '43' }];
  return helloIn(name).replace(
    /\}$/,
    `,\n      "tests": ${JSON.stringify(tests)}, "stop": "never"}`,
  );
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** The calls that need a key; the others are links at the top. */
function endpointRows(calls: readonly ApiCall[]): [string, string][] {
  return calls
    .filter(({ keyed }) => keyed)
    .map(({ method, path, operation }) => [`${method} ${path}`, operation.summary]);
}

function curl(origin: string, path: string, body: string, header?: string): string {
  return [
    `curl '${origin}${path}' \\`,
    '  -H "X-API-Key: $RUNLEDGER_API_KEY" \\',
    ...(header === undefined ? [] : [`  -H '${header}' \\`]),
    "  -H 'Content-Type: application/json' \\",
    `  -d '${escaped(body)}'`,
  ].join('\n');
}

function rows(items: readonly (readonly [string, string])[]): string {
  return items
    .map(([name, what]) => `<tr><td><code>${name}</code></td><td>${what}</td></tr>`)
    .join('');
}
