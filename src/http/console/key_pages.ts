/**
 * Making, rotating and revoking a key. A new secret is in one answer, and nowhere else.
 *
 * A command can take effect after its answer was a 503, and a browser can send a form again. So a form that makes a key has the key's
 * id, and one that rotates it has the newest version that the page showed: the database accepts each once.
 */
import { randomUUID } from 'node:crypto';
import { newSecret, secretDigest } from '../../access/secret.ts';
import type { Console, ShownAccount, ShownKey, ShownTier } from '../../store/console.ts';
import type { Answer } from '../wire/answer.ts';
import { parseUuid } from '../wire/header_values.ts';
import { CONSOLE, consolePage, form, messagePage, redirect, time } from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { type Html, html, type Shown } from './markup.ts';

const ACCOUNTS = '/accounts';
const PATH = '/keys';
const HOUR_MS = 3_600_000;
const VERSION = /^[1-9]\d{0,8}$/;

/** How long the secret before stays valid when a key is rotated: by the name in the form. */
const GRACES: Readonly<Record<string, { text: string; ms: number }>> = {
  none: { text: 'not at all: it has leaked', ms: 0 },
  hour: { text: 'for an hour', ms: HOUR_MS },
  day: { text: 'for a day', ms: 24 * HOUR_MS },
  week: { text: 'for a week', ms: 7 * 24 * HOUR_MS },
};
const USUAL_GRACE = 'day';

/** As permanent_id() in sql/functions/access.sql makes them. */
const newKeyId = () => `f${randomUUID().slice(1)}`;

/** Browsers keep the values of a form when a page is loaded again, unless it says that they must not. */
const hidden = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}" autocomplete="off">`;

/** `account`: whose key it will be; null: the name is asked for. */
export const newKeyForm = (
  visit: Visit,
  tiers: readonly ShownTier[],
  account: Pick<ShownAccount, 'id' | 'name'> | null,
): Html =>
  form(
    visit,
    PATH,
    html`${hidden('id', newKeyId())}<fieldset><legend>Make a key</legend>
${
  account === null
    ? html`<p>A name that is not there yet makes a new account.</p>
<label>account <input name="account" maxlength="200" required="required" autocomplete="off"></label>`
    : html`${hidden('account_id', account.id)}<p>It will be a key of ${account.name}.</p>`
}
<label>tier <select name="tier" required="required">${tiers.map(({ name }) => html`<option>${name}</option>`)}</select></label>
<button>Make a key</button></fieldset>`,
  );

/** What can be done with a key; for a revoked one, since when it is. */
export const changeKey = (
  visit: Visit,
  { id, version, revoked_at, grace_ends }: ShownKey,
): Shown =>
  revoked_at !== null
    ? html`revoked ${time(revoked_at)}`
    : html`${grace_ends !== null && html`<p>The secret before the present one works until ${time(grace_ends)}. A rotation ends it at once.</p>`}
<details><summary>Rotate</summary>${form(
        visit,
        `${PATH}/${id}/rotate`,
        html`${hidden('version', version)}<label>The present secret works on <select name="grace">${Object.entries(
          GRACES,
        ).map(
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

const incomplete = (visit: Visit) =>
  messagePage(visit, 400, 'Nothing was changed', 'The form is not complete: open its page again.');

const noKey = (visit: Visit) =>
  messagePage(visit, 404, 'No such key', 'There is no key with this id.');

/** The form on an account's page has its id, because no field of a form can have every name; the other one has a name. */
async function accountOf(store: Console, visit: Visit, given: URLSearchParams) {
  const account_id = given.get('account_id');
  if (account_id === null) return given.get('account')?.trim() ?? '';
  const id = parseUuid(account_id);
  const found = id && (await store.account(visit.asking, { id, before: null }));
  return found ? found.account.name : null;
}

export const createKey: ConsoleCall = {
  path: PATH,
  kind: 'form',
  async handler({ store, key_prefix }, visit, given) {
    const id = parseUuid(given.get('id') ?? '');
    if (id === null) return incomplete(visit);
    const account = await accountOf(store, visit, given);
    if (account === null) return incomplete(visit);
    const tier = given.get('tier') ?? '';
    const secret = newSecret(key_prefix);
    const secret_digest = secretDigest(secret);
    const key = { id, account, tier, prefix: key_prefix, secret_digest };
    await store.createKey(visit.asking, key);
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
    const version = given.get('version') ?? '';
    if (!VERSION.test(version)) return incomplete(visit);
    const seen_version = Number(version);
    const secret = newSecret(key_prefix);
    const secret_digest = secretDigest(secret);
    const grace_ms = GRACES[grace]!.ms;
    const ends = await store.rotateKey(visit.asking, { id, seen_version, secret_digest, grace_ms });
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
