/** The frame of the console's pages, and what their answers have in common. */
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Visit } from './console_parts.ts';
import { type Html, html, type Shown } from './markup.ts';
import { formToken } from './session_cookie.ts';

export const CONSOLE = '/console';

// Everything comes from this service, nothing is inline, and no text becomes a script.
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

const HEADERS = {
  'Content-Security-Policy': POLICY,
  // With no-referrer a browser would not say where a form comes from.
  'Referrer-Policy': 'same-origin',
};

const SECTIONS = [
  ['', 'Now'],
  ['/submissions', 'Submissions'],
  ['/deliveries', 'Deliveries'],
  ['/accounts', 'Accounts'],
  ['/tiers', 'Tiers'],
  ['/log', 'Log'],
] as const;

type Page = {
  title: string;
  /** The section of the page; null: none. */
  section: (typeof SECTIONS)[number][0] | null;
  main: Shown;
  status?: number;
  /** The module that makes the page live. */
  script?: string;
};

/** A page for an operator who is signed in. */
export function consolePage(visit: Visit, { section, ...page }: Page): Answer {
  return document(
    page,
    html`<header>
<a class="skip" href="#main">Skip to the content</a>
<nav aria-label="Console"><ul>
${SECTIONS.map(
  ([path, name]) =>
    html`<li><a href="${CONSOLE}${path}"${path === section && html` aria-current="page"`}>${name}</a></li>\n`,
)}</ul></nav>
${form(visit, '/sign-out', html`<span>${visit.operator}</span> <button>Sign out</button>`)}
</header>`,
  );
}

/** A page for anybody. */
export const barePage = (page: Omit<Page, 'section'>): Answer => document(page, html``);

function document(
  { title, main, script, status = STATUS.ok }: Omit<Page, 'section'>,
  header: Html,
): Answer {
  const { text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – Runledger</title>
<link rel="stylesheet" href="${CONSOLE}/assets/uplot.css">
<link rel="stylesheet" href="${CONSOLE}/assets/console.css">
${script && html`<script type="module" src="${CONSOLE}/assets/${script}"></script>`}
</head>
<body>
${header}
<main id="main">
<h1>${title}</h1>
${main}
</main>
</body>
</html>
`;
  return { status, type: 'text/html; charset=utf-8', headers: HEADERS, body: Buffer.from(text) };
}

/** What went wrong, and what to do. */
export const messagePage = (visit: Visit, status: number, title: string, text: string): Answer =>
  consolePage(visit, { title, section: null, status, main: html`<p>${text}</p>` });

export const redirect = (path: string, headers: Answer['headers'] = {}): Answer => ({
  status: STATUS.see_other,
  headers: { Location: path, ...headers },
});

/** A form that changes something. */
export const form = (visit: Visit, path: string, content: Shown): Html =>
  html`<form method="post" action="${CONSOLE}${path}"><input type="hidden" name="token" value="${formToken(visit.session)}">${content}</form>`;

type Column<T> = {
  name: string;
  cell: (row: T) => Shown;
  /** A number is at the right; a long text has room for its lines; what a narrow screen does not need is left out there. */
  kind?: 'number' | 'text' | 'wide' | 'wide number';
};

/** Scrolls by itself, with the keyboard, too. */
export function table<T>(caption: string, columns: readonly Column<T>[], rows: readonly T[]): Html {
  if (rows.length === 0) return html`<p class="none">${caption}: none.</p>`;
  const kindOf = ({ kind }: Column<T>) => kind && html` class="${kind}"`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table>
<caption>${caption}</caption>
<thead><tr>${columns.map((column) => html`<th scope="col"${kindOf(column)}>${column.name}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => html`<tr>${columns.map((column) => html`<td${kindOf(column)}>${column.cell(row)}</td>`)}</tr>\n`)}</tbody>
</table></div>`;
}

export const terms = (items: readonly (readonly [term: string, what: Shown])[]): Html =>
  html`<dl>${items.map(([term, what]) => html`<div><dt>${term}</dt><dd>${what}</dd></div>\n`)}</dl>`;

/** Times of the database, as JSON has them, in UTC. */
export function time(text: string | null): Shown {
  if (text === null) return '–';
  const iso = new Date(text).toISOString();
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')}</time>`;
}

/** The first part of an id is its time, and the last one is random: together they are short, and tell submissions apart. */
export const submissionLink = (id: string): Html =>
  html`<a class="id" href="${CONSOLE}/submissions/${id}" title="${id}">${id.slice(0, 8)}…${id.slice(-12)}</a>`;

export const badge = (name: string | null): Shown =>
  name === null ? '–' : html`<span class="badge ${name.toLowerCase()}">${name}</span>`;

/** The link to the next page of a list. */
export function nextLink(path: string, query: URLSearchParams, more: Record<string, string>): Html {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(more)) next.set(name, value);
  return html`<p><a rel="next" href="${CONSOLE}${path}?${next.toString()}">Next page</a></p>`;
}

/** One of a few names, or any. */
export const choice = (
  name: string,
  label: string,
  names: readonly string[],
  chosen: string | null,
): Html =>
  html`<label>${label} <select name="${name}"><option value="">any</option>${names.map(
    (each) => html`<option${each === chosen && html` selected="selected"`}>${each}</option>`,
  )}</select></label>`;
