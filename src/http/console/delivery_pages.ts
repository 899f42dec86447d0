/** Deliveries of webhooks, and a delivery that is requested again. */

import { DELIVERY_STATUSES } from '../../domain/delivery_outcomes.ts';
import { isSecret, SECRET_LIMIT_BYTES } from '../../domain/webhook_secret.ts';
import { PAGE_ROWS, type ShownDelivery } from '../../store/console.ts';
import { REPLAY_PROBLEMS } from '../../store/deliveries.ts';
import { parseUuid } from '../wire/header_values.ts';
import {
  CONSOLE,
  choice,
  consolePage,
  form,
  messagePage,
  nextLink,
  redirect,
  submissionLink,
  table,
  time,
} from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { type Html, html } from './markup.ts';

const PATH = '/deliveries';

export const deliveriesPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const status = DELIVERY_STATUSES.find((name) => name === query.get('status')) ?? null;
    const before = parseUuid(query.get('before') ?? '');
    const { rows, next } = await store.deliveries(visit.asking, { status, before });
    return consolePage(visit, {
      title: 'Deliveries',
      section: PATH,
      main: html`<form class="filters" action="${CONSOLE}${PATH}">${choice('status', 'status', DELIVERY_STATUSES, status)} <button>Show</button></form>
${table('Deliveries', COLUMNS, rows)}
${
  next !== null &&
  html`${rows.length < PAGE_ROWS && html`<p>This page looked through a bounded number of deliveries; there are more.</p>`}
${nextLink(PATH, query, { before: next })}`
}`,
    });
  },
};

const COLUMNS = [
  { name: 'requested (UTC)', cell: ({ created_at }: ShownDelivery) => time(created_at) },
  { name: 'status', cell: ({ status }: ShownDelivery) => status },
  { name: 'submission', cell: ({ submission_id }: ShownDelivery) => submissionLink(submission_id) },
  { name: 'account', cell: ({ account }: ShownDelivery) => account },
  { name: 'attempts', kind: 'number' as const, cell: ({ attempts }: ShownDelivery) => attempts },
  {
    name: 'last',
    cell: ({ last_outcome, last_status }: ShownDelivery) =>
      [last_outcome, last_status].filter((each) => each !== null).join(' ') || '–',
  },
  {
    name: 'next (UTC)',
    kind: 'wide' as const,
    cell: ({ next_at }: ShownDelivery) => time(next_at),
  },
];

/** A delivery that has ended needs its secret again, because the service has deleted it. */
export const replayForm = (visit: Visit, id: string, status: string): Html =>
  form(
    visit,
    `/submissions/${id}/replay`,
    html`<fieldset><legend>Deliver again</legend>
${status !== 'waiting' && html`<label>the webhook’s secret, which was deleted at the end of the delivery <input type="password" name="secret" autocomplete="off" required="required"></label>`}
<button>Deliver now</button></fieldset>`,
  );

export const replay: ConsoleCall = {
  path: '/submissions/{id}/replay',
  kind: 'form',
  async handler({ store, webhooks }, visit, given) {
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    const secret = given.get('secret') ?? '';
    const not = (status: number, why: string) =>
      messagePage(visit, status, 'Nothing is delivered', why);
    if (id === null) return not(404, REPLAY_PROBLEMS.unknown);
    if (secret !== '' && webhooks === null)
      return not(400, 'This process has no RUNLEDGER_WEBHOOK_KEYS, so it cannot keep a secret.');
    if (Buffer.byteLength(secret) > SECRET_LIMIT_BYTES || !isSecret(secret))
      return not(400, 'The secret is not one that a submission can have.');
    const encrypted = secret === '' ? null : webhooks!.encrypt(id, secret);
    const replayed = await store.replay(visit.asking, id, encrypted);
    if (replayed === 'replayed') return redirect(`${CONSOLE}/submissions/${id}`);
    if (replayed === 'secret_needed') return not(409, 'This delivery has ended: give its secret.');
    return not(replayed === 'unknown' ? 404 : 409, REPLAY_PROBLEMS[replayed]);
  },
};
