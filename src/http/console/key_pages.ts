/** Making, rotating and revoking a key. A new secret is in one answer, and nowhere else. */
import { newSecret, secretDigest } from '../../access/secret.ts';
import type { ShownKey, ShownTier } from '../../store/console.ts';
import type { Answer } from '../wire/answer.ts';
import { parseUuid } from '../wire/header_values.ts';
import { CONSOLE, consolePage, form, messagePage, redirect, time } from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { type Html, html, type Shown } from './markup.ts';

const ACCOUNTS = '/accounts';
const PATH = '/keys';
const HOUR_MS = 3_600_000;

/** How long the secret before stays valid when a key is rotated: by the name in the form. */
const GRACES: Readonly<Record<string, { text: string; ms: number }>> = {
  none: { text: 'not at all: it has leaked', ms: 0 },
  hour: { text: 'for an hour', ms: HOUR_MS },
  day: { text: 'for a day', ms: 24 * HOUR_MS },
  week: { text: 'for a week', ms: 7 * 24 * HOUR_MS },
};
const USUAL_GRACE = 'day';

export const newKeyForm = (visit: Visit, tiers: readonly ShownTier[], account: string): Html =>
  form(
    visit,
    PATH,
    html`<fieldset><legend>Make a key</legend>
<p>A name that is not there yet makes a new account.</p>
<label>account <input name="account" value="${account}" maxlength="200" required="required" autocomplete="off"></label>
<label>tier <select name="tier" required="required">${tiers.map(({ name }) => html`<option>${name}</option>`)}</select></label>
<button>Make a key</button></fieldset>`,
  );

/** What can be done with a key; for a revoked one, since when it is. */
export const changeKey = (visit: Visit, { id, revoked_at }: ShownKey): Shown =>
  revoked_at !== null
    ? html`revoked ${time(revoked_at)}`
    : html`<details><summary>Rotate</summary>${form(
        visit,
        `${PATH}/${id}/rotate`,
        html`<label>The present secret works on <select name="grace">${Object.entries(GRACES).map(
          ([name, { text }]) =>
            html`<option value="${name}"${name === USUAL_GRACE && html` selected="selected"`}>${text}</option>`,
        )}</select></label> <button>Give it a new secret</button>`,
      )}</details>
<details><summary>Revoke</summary>${form(visit, `${PATH}/${id}/revoke`, html`<p>The key ends at once. Submissions that it sent still finish.</p><button class="danger">Revoke this key</button>`)}</details>`;

const shownOnce = (visit: Visit, title: string, secret: string, more: Shown): Answer =>
  consolePage(visit, {
    title,
    section: ACCOUNTS,
    main: html`<p>Copy it now: it is stored nowhere, and not shown again.</p>
<pre tabindex="0" aria-label="The secret">${secret}</pre>
${more}
<p><a href="${CONSOLE}${ACCOUNTS}">All accounts</a></p>`,
  });

const noKey = (visit: Visit) =>
  messagePage(visit, 404, 'No such key', 'There is no key with this id.');

export const createKey: ConsoleCall = {
  path: PATH,
  kind: 'form',
  async handler({ store, key_prefix }, visit, given) {
    const account = given.get('account')?.trim() ?? '';
    const tier = given.get('tier') ?? '';
    const secret = newSecret(key_prefix);
    const secret_digest = secretDigest(secret);
    const key = { account, tier, prefix: key_prefix, secret_digest };
    const id = await store.createKey(visit.asking, key);
    const more = html`<p>It is key <span class="id">${id}</span> of account ${account}, tier ${tier}.</p>`;
    return shownOnce(visit, 'A new key', secret, more);
  },
};

export const rotateKey: ConsoleCall = {
  path: `${PATH}/{id}/rotate`,
  kind: 'form',
  async handler({ store, key_prefix }, visit, given) {
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    if (id === null) return noKey(visit);
    const grace = given.get('grace') ?? '';
    if (!Object.hasOwn(GRACES, grace)) {
      const names = Object.keys(GRACES).join(', ');
      return messagePage(visit, 400, 'Nothing was changed', `The grace is one of ${names}.`);
    }
    const secret = newSecret(key_prefix);
    const secret_digest = secretDigest(secret);
    const grace_ms = GRACES[grace]!.ms;
    const ends = await store.rotateKey(visit.asking, { id, secret_digest, grace_ms });
    const more = html`<p>The secret before this one of key <span class="id">${id}</span> ends at ${time(ends.toISOString())} (UTC). Any older one has ended now.</p>`;
    return shownOnce(visit, 'A new secret', secret, more);
  },
};

export const revokeKey: ConsoleCall = {
  path: `${PATH}/{id}/revoke`,
  kind: 'form',
  async handler({ store }, visit) {
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    if (id === null) return noKey(visit);
    const account_id = await store.revokeKey(visit.asking, id);
    return redirect(`${CONSOLE}${ACCOUNTS}/${account_id}`);
  },
};
