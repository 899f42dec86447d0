/**
 * The task of a delivery's job: check that it is due, wait for a turn at the receiver, guard, sign, send, and append the
 * outcome.
 *
 *   * The attempt, what follows from it (the next attempt's job, or the end and the deletion of the secret) and the projection
 *     are one transaction. If the process dies before it, the job is run again: at least once, never not at all.
 *   * A job can be left over (its process died after that transaction). `due` answers nothing for a delivery that has ended, and
 *     the task returns, which deletes the job.
 *   * A job can come too early: left over, or after the clock was set back. It is put back to the delivery's time, and takes the
 *     place of the job that it may have there. So a waiting delivery always has a job.
 *   * A job can come twice to this process: its consumer was declared dead, and the same process fetches the job again while
 *     the attempt still runs. The second task waits for the first and then begins with `due`.
 *   * The turn at the receiver comes before the bytes: a task that waits for one holds an id and no body.
 *   * A job that finds no room is put back. If it has been due for a day, and the attempts that take the room hang, its own has
 *     failed without being made, and the schedule goes on: so a delivery to a receiver that hangs ends, too.
 *   * On a stop, a task that waits for a turn puts its job back at once, and one that sends may finish until `cut`. An attempt
 *     that is cut off is appended as such, is repeated at once, and does not count in the schedule.
 */
import { type Outcome, UNMADE_OUTCOMES, type UnmadeOutcome } from '../domain/delivery_outcomes.ts';
import { type ResultRow, SMALL_RECORD_BYTES } from '../domain/record.ts';
import type { Log } from '../log.ts';
import type { Deliveries, DeliveryState, DueDelivery, OpenDelivery } from '../store/deliveries.ts';
import { nextStep } from '../webhooks/backoff.ts';
import { decryptSecret, type EncryptionKeys } from '../webhooks/encrypt_secret.ts';
import type { Full, HostGate } from '../webhooks/host_gate.ts';
import { webhookBody } from '../webhooks/payload.ts';
import { type Attempt, type SendOptions, sendWebhook } from '../webhooks/send.ts';
import { signatureHeaders } from '../webhooks/sign.ts';
import type { DeliveryTask } from './delivery_runner.ts';
import { retryWhileAway } from './retry.ts';

export type DeliverOptions = {
  readonly deliveries: Deliveries;
  /** Makes a large body without holding up this process. */
  readonly bodyOf: (record: ResultRow) => Promise<Uint8Array>;
  readonly keys: EncryptionKeys;
  readonly schedule_ms: readonly number[];
  /** How one attempt is made; the signal is `cut`. */
  readonly send: Omit<SendOptions, 'signal'> & { readonly limit_ms: number };
  readonly gate: HostGate;
  /** Fires when a stop begins. */
  readonly stopping: AbortSignal;
  /** Fires when the grace period of a stop is over. */
  readonly cut: AbortSignal;
  readonly random: () => number;
  readonly now: () => Date;
  readonly log: Log;
  readonly observe: DeliveryObserver;
};

export type DeliveryObserver = {
  /** Null: nothing was sent. */
  attempted(outcome: string, seconds: number | null): void;
  ended(how: string): void;
};

/** The facts of the event: an attempt, or why none was made. */
type AttemptFacts = Omit<Attempt, 'outcome'> & { outcome: Outcome };

/**
 * An attempt has failed if it has waited for so long, and there is no room for it because others hang. Otherwise the deliveries
 * to a receiver that hangs would never end, and retention keeps the months of what has not ended.
 */
export const OVERDUE_MS = 24 * 3_600_000;
/**
 * Attempts hang if they take at least this part of their time limit, and this time. After an outage a receiver that answers is
 * full for a while, too.
 */
const HANGING = { part: 0.5, least_ms: 2_000 };

/** `body`: what a further attempt has to send, if the database does not have it. */
type Made = { facts: AttemptFacts; body: Uint8Array | null };

export function createDeliverTask(options: DeliverOptions): DeliveryTask {
  const { deliveries, gate, stopping } = options;
  const running = new Map<string, Promise<void>>();
  const deliver = async (id: string, consumer: string): Promise<void> => {
    const due = await deliveries.due(id);
    if (due === null) return;
    if (!due.is_due) return deliveries.putBackEarly(id);
    const entry = await gate.enter(hostOf(due.url), due.account_id, stopping).catch(() => null);
    if (entry === null) return deliveries.putBack(id, 0);
    if (entry.kind === 'full') {
      if (!isOverdue(options, due, entry)) return deliveries.putBack(id, entry.retry_in_ms);
      return record(options, { id, consumer, ...due }, notMade('overdue', null));
    }
    let attempt_ms: number | undefined;
    try {
      await attempt(options, id, consumer, (took_ms) => {
        attempt_ms = took_ms;
      });
    } finally {
      entry.leave(attempt_ms);
    }
  };
  return ({ id }, consumer) => {
    const before = running.get(id) ?? Promise.resolve();
    const mine = before.catch(() => {}).then(() => deliver(id, consumer));
    running.set(id, mine);
    return mine.finally(() => {
      if (running.get(id) === mine) running.delete(id);
    });
  };
}

/** The guard checks the URL later. Here its host only names the receiver whose turns are shared. */
function hostOf(url: string): string {
  return URL.parse(url)?.hostname ?? '';
}

function isOverdue({ send }: DeliverOptions, due: DueDelivery, { attempt_ms }: Full): boolean {
  const hangs = attempt_ms >= Math.max(send.limit_ms * HANGING.part, HANGING.least_ms);
  return hangs && due.waited_ms >= OVERDUE_MS;
}

/** `onSent`: how long the receiver took, if it was asked. */
async function attempt(
  options: DeliverOptions,
  id: string,
  consumer: string,
  onSent: (took_ms: number) => void,
): Promise<void> {
  // Checked again: time has passed in line, and another process may have been quicker.
  const delivery = await options.deliveries.open(id);
  // It has ended; or the clock was set back, and its job must not be lost.
  if (delivery === null) return options.deliveries.putBackEarly(id);
  const made = await make(options, delivery);
  if (wasMade(made.facts.outcome)) onSent(made.facts.duration_ms);
  return record(options, { id, consumer, ...delivery }, made);
}

type Attempted = DeliveryState & { readonly id: string; readonly consumer: string };

async function record(
  options: DeliverOptions,
  { id, consumer, ...delivery }: Attempted,
  { facts, body }: Made,
): Promise<void> {
  const { schedule_ms, random, observe } = options;
  const attempts = delivery.failures + 1;
  const next = nextStep({ ...facts, schedule_ms, attempts, random: random() });
  const log = options.log.child({ submission: id, attempt: delivery.attempts + 1 });
  // The receiver's answer is kept while the database is away, or the webhook would be sent again.
  const status = await retryWhileAway(
    () =>
      options.deliveries.attempted({
        id,
        after_attempts: delivery.attempts,
        after_version: delivery.version,
        facts: { ...facts, consumer },
        next,
        // A replay in the meantime can reopen any other end. A delivery that succeeded sends nothing again.
        body: facts.outcome === 'delivered' ? null : body,
      }),
    () => options.cut.aborted,
  );
  observe.attempted(facts.outcome, wasMade(facts.outcome) ? facts.duration_ms / 1000 : null);
  if (status === null)
    return log.warn({ outcome: facts.outcome }, 'another process recorded this attempt first');
  // A replay in the meantime can undo the end.
  const has_ended = status !== 'waiting';
  if (has_ended) observe.ended(status);
  const then = 'end' in next && !has_ended ? { retry_in_ms: 0, counts: false } : next;
  const shown = { outcome: facts.outcome, status: facts.status, detail: facts.detail, ...then };
  // No receiver did it: the operator has to put a key back, and after the last attempt that helps no more.
  if (facts.outcome === 'secret_unreadable') log.warn(shown, 'a webhook could not be signed');
  else log.info(shown, 'webhook');
}

/** Makes the attempt. A secret that cannot be decrypted is a failure like any other: its key may be put back. */
async function make(options: DeliverOptions, delivery: OpenDelivery): Promise<Made> {
  const { record, url, encrypted_secret, traceparent } = delivery;
  if (encrypted_secret === null) return notMade('secret_unreadable', 'missing');
  const opened = decryptSecret(options.keys, record.id, encrypted_secret);
  if (opened.kind !== 'decrypted')
    return notMade('secret_unreadable', `${opened.kind} ${opened.key_id}`);
  const body = delivery.body ?? (await bodyOf(options, record));
  const at = options.now();
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Runledger',
    ...(traceparent === null ? {} : { traceparent }),
    ...signatureHeaders({ id: record.id, at, body, secret: opened.secret }),
  };
  const facts = await sendWebhook(
    { url, headers, body, at },
    { ...options.send, signal: options.cut },
  );
  return { facts, body: delivery.body === null ? body : null };
}

function bodyOf(options: DeliverOptions, record: ResultRow): Uint8Array | Promise<Uint8Array> {
  const outputs = (record.stdout?.length ?? 0) + (record.stderr?.length ?? 0);
  if (record.large === undefined && outputs <= SMALL_RECORD_BYTES) return webhookBody(record);
  return options.bodyOf(record);
}

const wasMade = (outcome: Outcome) => !(UNMADE_OUTCOMES as readonly string[]).includes(outcome);

function notMade(outcome: UnmadeOutcome, detail: string | null): Made {
  const none = { status: null, address: null, retry_after_ms: null, answer_bytes: 0 };
  return {
    facts: { ...none, outcome, detail, answer_cut: false, duration_ms: 0 },
    body: null,
  };
}
