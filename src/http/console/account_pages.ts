/** Accounts and their keys. */
import type { ShownAccount, ShownKey } from '../../store/console.ts';
import { PAGE_ROWS } from '../../store/console.ts';
import { parseTime } from '../api/list_query.ts';
import { parseUuid } from '../wire/header_values.ts';
import {
  CONSOLE,
  consolePage,
  form,
  messagePage,
  nextLink,
  redirect,
  table,
  terms,
  time,
} from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { html } from './markup.ts';

const PATH = '/accounts';

export const accountsPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const part = query.get('name')?.trim() ?? '';
    const rows = await store.accounts(visit.asking, { part, after: query.get('after') ?? '' });
    const last = rows.length === PAGE_ROWS ? rows.at(-1)! : null;
    return consolePage(visit, {
      title: 'Accounts',
      section: PATH,
      main: html`<form class="filters" role="search" action="${CONSOLE}${PATH}"><label>name <input name="name" value="${part}" autocomplete="off"></label> <button>Search</button></form>
${table('Accounts', ACCOUNT_COLUMNS, rows)}
${last && nextLink(PATH, query, { after: last.name })}`,
    });
  },
};

const ACCOUNT_COLUMNS = [
  {
    name: 'name',
    cell: ({ id, name }: ShownAccount) => html`<a href="${CONSOLE}${PATH}/${id}">${name}</a>`,
  },
  { name: 'valid keys', kind: 'number' as const, cell: ({ keys }: ShownAccount) => keys },
  { name: 'waiting', kind: 'number' as const, cell: ({ pending }: ShownAccount) => pending },
  { name: 'last used (UTC)', cell: ({ last_used_at }: ShownAccount) => time(last_used_at) },
  {
    name: 'created (UTC)',
    kind: 'wide' as const,
    cell: ({ created_at }: ShownAccount) => time(created_at),
  },
];

export const accountPage: ConsoleCall = {
  path: '/accounts/{id}',
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    const before = parseTime(query.get('before') ?? '');
    const found = id && (await store.account(visit.asking, { id, before }));
    if (!found)
      return messagePage(visit, 404, 'No such account', 'There is no account with this id.');
    const { account, keys } = found;
    const last = keys.length === PAGE_ROWS ? keys.at(-1)! : null;
    const submissions = new URLSearchParams({ account: account.name });
    return consolePage(visit, {
      title: account.name,
      section: PATH,
      main: html`${terms([
        ['id', html`<span class="id">${account.id}</span>`],
        ['created', time(account.created_at)],
        ['submissions waiting', account.pending],
      ])}
<p><a href="${CONSOLE}/submissions?${submissions.toString()}">Its submissions</a></p>
${table('Keys', keyColumns(visit), keys)}
${last && nextLink(`${PATH}/${account.id}`, query, { before: last.created_at })}`,
    });
  },
};

const keyColumns = (visit: Visit) => [
  { name: 'id', cell: ({ id }: ShownKey) => html`<span class="id">${id}</span>` },
  {
    name: 'tier',
    cell: ({ tier }: ShownKey) => html`<a href="${CONSOLE}/tiers?tier=${tier}">${tier}</a>`,
  },
  {
    name: 'in the queue or running',
    kind: 'number' as const,
    cell: ({ dispatched }: ShownKey) => dispatched,
  },
  {
    name: 'waiting for its concurrency',
    kind: 'wide number' as const,
    cell: ({ gated }: ShownKey) => gated,
  },
  { name: 'last used (UTC)', cell: ({ last_used_at }: ShownKey) => time(last_used_at) },
  {
    name: 'created (UTC)',
    kind: 'wide' as const,
    cell: ({ created_at }: ShownKey) => time(created_at),
  },
  {
    name: 'valid',
    cell: ({ id, revoked_at }: ShownKey) =>
      revoked_at !== null
        ? html`revoked ${time(revoked_at)}`
        : html`<details><summary>Revoke</summary>${form(visit, `/keys/${id}/revoke`, html`<p>The key ends at once. Submissions that it sent still finish.</p><button class="danger">Revoke this key</button>`)}</details>`,
  },
];

export const revokeKey: ConsoleCall = {
  path: '/keys/{id}/revoke',
  kind: 'form',
  async handler({ store }, visit) {
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    if (id === null) return messagePage(visit, 404, 'No such key', 'There is no key with this id.');
    const account_id = await store.revokeKey(visit.asking, id);
    return redirect(`${CONSOLE}${PATH}/${account_id}`);
  },
};
