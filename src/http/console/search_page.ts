/** Search among the submissions of all accounts, or of one. */
import { STATUS_NAMES } from '../../domain/statuses.ts';
import { bytesText, durationText } from '../../domain/units_text.ts';
import { VERDICT_NAMES } from '../../domain/verdicts.ts';
import { CANONICAL_NAMES } from '../../languages/common/registry.ts';
import { type FoundSubmission, PAGE_ROWS, type SearchQuery } from '../../store/console.ts';
import { cursorOf, readListQuery } from '../api/list_query.ts';
import { parseUuid } from '../wire/header_values.ts';
import type { FieldError } from '../wire/problem.ts';
import {
  badge,
  CONSOLE,
  choice,
  consolePage,
  nextLink,
  redirect,
  submissionLink,
  table,
  time,
} from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';
import { fieldValue, html } from './markup.ts';

const PATH = '/submissions';

export const searchPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const id = query.get('id')?.trim() ?? '';
    if (parseUuid(id) !== null) return redirect(`${CONSOLE}${PATH}/${parseUuid(id)}`);
    const problems: FieldError[] = [];
    if (id !== '') problems.push({ path: '?id', message: 'is not the id of a submission' });
    const search = searchOf(query, problems);
    const { rows, next } =
      problems.length > 0 ? { rows: [], next: null } : await store.search(visit.asking, search);
    return consolePage(visit, {
      title: 'Submissions',
      section: PATH,
      status: problems.length > 0 ? 400 : 200,
      main: html`${searchForm(query)}
${problems.map(({ path, message }) => html`<p class="problem" role="alert">${path.slice(1)} ${message}</p>`)}
${table('Submissions', COLUMNS, rows)}
${rows.length === 0 && search.account !== null && html`<p>The name of an account counts to the letter: <a href="${CONSOLE}/accounts?${new URLSearchParams({ name: search.account.name }).toString()}">look for the account</a>.</p>`}
${
  next !== null &&
  html`${rows.length < PAGE_ROWS && html`<p>This page looked through a bounded number of submissions; there are more.</p>`}
${nextLink(PATH, query, { after: cursorOf(next) })}`
}`,
    });
  },
};

const COLUMNS = [
  { name: 'accepted (UTC)', cell: ({ created_at }: FoundSubmission) => time(created_at) },
  {
    name: 'verdict',
    cell: ({ verdict, status }: FoundSubmission) => badge(verdict ?? status),
  },
  { name: 'id', cell: ({ id }: FoundSubmission) => submissionLink(id) },
  {
    name: 'account',
    cell: ({ account, account_id }: FoundSubmission) =>
      html`<a href="${CONSOLE}/accounts/${account_id}">${account}</a>`,
  },
  { name: 'language', cell: ({ language }: FoundSubmission) => language },
  {
    name: 'CPU',
    kind: 'wide number' as const,
    cell: ({ cpu_time_us }: FoundSubmission) => durationText(cpu_time_us),
  },
  {
    name: 'memory',
    kind: 'wide number' as const,
    cell: ({ memory_peak_bytes }: FoundSubmission) => bytesText(memory_peak_bytes),
  },
];

/** A form sends every field; an empty one is none. Its times have no zone: they are UTC. */
function searchOf(query: URLSearchParams, problems: FieldError[]): SearchQuery {
  const given = new URLSearchParams({ limit: String(PAGE_ROWS) });
  for (const name of ['status', 'verdict', 'language', 'from', 'to', 'after']) {
    const text = query.get(name)?.trim() ?? '';
    if (text !== '') given.set(name, zoned(text));
  }
  const account = query.get('account')?.trim() ?? '';
  return {
    ...readListQuery(given, problems),
    account: account === '' ? null : { name: account, id: parseUuid(account) },
  };
}

function zoned(text: string): string {
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text)) return `${text}:00Z`;
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/.test(text) ? `${text}Z` : text;
}

const searchForm = (query: URLSearchParams) => {
  const given = (name: string) => query.get(name) ?? '';
  const moment = (name: string, label: string) =>
    html`<label>${label} <input type="datetime-local" name="${name}" value="${fieldValue(given(name))}"></label>`;
  return html`<form class="filters" role="search" action="${CONSOLE}${PATH}">
<label>id <input name="id" value="${fieldValue(given('id'))}" autocomplete="off"></label>
<label>account <input name="account" value="${fieldValue(given('account'))}" autocomplete="off"></label>
${choice('status', 'status', STATUS_NAMES, query.get('status'))}
${choice('verdict', 'verdict', VERDICT_NAMES, query.get('verdict'))}
${choice('language', 'language', [...new Set(CANONICAL_NAMES.values())], query.get('language'))}
${moment('from', 'from (UTC)')}
${moment('to', 'before (UTC)')}
<button>Search</button>
</form>`;
};
