/** Accounts, and the keys of one. */
import type { ShownAccount, ShownKey } from '../../store/console.ts';
import { PAGE_ROWS } from '../../store/console.ts';
import { parseUuid } from '../wire/header_values.ts';
import { CONSOLE, consolePage, messagePage, nextLink, table, terms, time } from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { changeKey, newKeyForm } from './key_pages.ts';
import { fieldValue, html } from './markup.ts';

const PATH = '/accounts';

export const accountsPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const part = query.get('name')?.trim() ?? '';
    const [{ rows, next }, tiers] = await Promise.all([
      store.accounts(visit.asking, { part, after: query.get('after') ?? '' }),
      store.tiers(visit.asking),
    ]);
    return consolePage(visit, {
      title: 'Accounts',
      section: PATH,
      main: html`<form class="filters" role="search" action="${CONSOLE}${PATH}"><label>name <input name="name" value="${fieldValue(part)}" autocomplete="off"></label> <button>Search</button></form>
${table('Accounts', ACCOUNT_COLUMNS, rows)}
${
  next !== null &&
  html`${rows.length < PAGE_ROWS && html`<p>This page looked through a bounded number of accounts; there may be more.</p>`}
${nextLink(PATH, query, { after: next })}`
}
${newKeyForm(visit, tiers, null)}`,
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
    const before = parseUuid(query.get('before') ?? '');
    const [found, tiers] = await Promise.all([
      id && store.account(visit.asking, { id, before }),
      store.tiers(visit.asking),
    ]);
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
${last && nextLink(`${PATH}/${account.id}`, query, { before: last.id })}
${newKeyForm(visit, tiers, account)}`,
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
    name: 'waiting for its concurrency or a worker',
    kind: 'wide number' as const,
    cell: ({ gated }: ShownKey) => gated,
  },
  { name: 'last used (UTC)', cell: ({ last_used_at }: ShownKey) => time(last_used_at) },
  {
    name: 'created (UTC)',
    kind: 'wide' as const,
    cell: ({ created_at }: ShownKey) => time(created_at),
  },
  { name: 'valid', cell: (key: ShownKey) => changeKey(visit, key) },
];
