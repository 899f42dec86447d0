/** Tiers, and a change of one. */
import type { ShownTier } from '../../store/console.ts';
import { limitText } from '../../store/keys.ts';
import { CONSOLE, consolePage, form, messagePage, redirect, table, time } from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';
import { html } from './markup.ts';

const PATH = '/tiers';

export const tiersPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store }, visit) {
    const tiers = await store.tiers(visit.asking);
    const chosen = tiers.find(({ name }) => name === visit.query.get('tier'));
    const count = (name: 'per_minute' | 'concurrent', label: string) =>
      html`<label>${label} <input name="${name}" value="${chosen?.[name]}" inputmode="numeric" pattern="[0-9]{1,9}" required="required"></label>`;
    return consolePage(visit, {
      title: 'Tiers',
      section: PATH,
      main: html`${table('Tiers', COLUMNS, tiers)}
${form(
  visit,
  PATH,
  html`<fieldset><legend>Set a tier</legend>
<p>The limits apply at once to all keys of the tier. 0 is no limit. A name that is not there yet makes a new tier.</p>
<label>name <input name="name" value="${chosen?.name}" required="required" autocomplete="off"></label>
${count('per_minute', 'requests in any 60 seconds')}
${count('concurrent', 'executions at the same time')}
<button>Set</button></fieldset>`,
)}`,
    });
  },
};

const COLUMNS = [
  {
    name: 'name',
    cell: ({ name }: ShownTier) => html`<a href="${CONSOLE}${PATH}?tier=${name}">${name}</a>`,
  },
  {
    name: 'requests a minute',
    kind: 'number' as const,
    cell: ({ per_minute }: ShownTier) => limitText(per_minute),
  },
  {
    name: 'at the same time',
    kind: 'number' as const,
    cell: ({ concurrent }: ShownTier) => limitText(concurrent),
  },
  { name: 'valid keys', kind: 'number' as const, cell: ({ keys }: ShownTier) => keys },
  {
    name: 'changed (UTC)',
    kind: 'wide' as const,
    cell: ({ changed_at }: ShownTier) => time(changed_at),
  },
];

export const setTier: ConsoleCall = {
  path: PATH,
  kind: 'form',
  async handler({ store }, visit, given) {
    const [per_minute, concurrent] = [given.get('per_minute'), given.get('concurrent')].map(
      (text) => (/^\d{1,9}$/.test(text ?? '') ? Number(text) : null),
    );
    if (per_minute == null || concurrent == null) {
      const why = 'Both limits must be whole numbers, 0 for no limit.';
      return messagePage(visit, 400, 'Nothing was changed', why);
    }
    const name = given.get('name')?.trim() ?? '';
    await store.setTier(visit.asking, { name, per_minute, concurrent });
    return redirect(`${CONSOLE}${PATH}`);
  },
};
