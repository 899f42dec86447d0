/**
 * The task of a delivery's job: is it due, is there a place, guard, sign, send, and append what came of it.
 *
 *   * The attempt, what follows from it (the next one's job, or the end and the secret's deletion) and the projection
 *     are one transaction. A process that dies before it leaves the job to be run again: at least once, never none.
 *   * A job can be left over (its process died after that transaction): `due` answers nothing for a delivery that has
 *     ended or whose time has not come, and the task returns, which deletes its job. Nothing is lost by that: the
 *     transaction that set the time made a job for it.
 *   * A job can come twice to this process: its consumer was declared dead, and it is the one that takes the job again
 *     while the attempt still runs. The second waits for the first and then asks like any other.
 *   * The place at the receiver comes before the bytes: what waits for one holds an id and no body.
 *   * Stopping: who waits for a place is put back at once; who sends may finish until `cut`; what that cuts off is
 *     appended as such, repeats at once, and takes no place in the schedule.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway } from '../db.ts';
import type { Log } from '../log.ts';
import type { Deliveries, OpenDelivery } from '../store/deliveries.ts';
import { nextStep } from '../webhooks/backoff.ts';
import { decryptSecret, type EncryptionKeys } from '../webhooks/encrypt_secret.ts';
import type { HostGate } from '../webhooks/host_gate.ts';
import { webhookBody } from '../webhooks/payload.ts';
import { type Attempt, type SendOptions, sendWebhook } from '../webhooks/send.ts';
import { signatureHeaders } from '../webhooks/sign.ts';
import type { Task } from './runner.ts';

export type DeliverOptions = {
  readonly deliveries: Deliveries;
  readonly keys: EncryptionKeys;
  readonly schedule_ms: readonly number[];
  /** How one attempt is made; the signal is `cut`. */
  readonly send: Omit<SendOptions, 'signal'>;
  readonly gate: HostGate;
  /** Fires when a stop begins. */
  readonly stopping: AbortSignal;
  /** Fires when the grace of a stop is over. */
  readonly cut: AbortSignal;
  readonly random: () => number;
  readonly now: () => Date;
  readonly log: Log;
  readonly observe: DeliveryObserver;
};

export type DeliveryObserver = {
  attempted(outcome: string, seconds: number): void;
  ended(how: string): void;
};

/** As the event keeps it: an attempt, or why there was nothing to sign one with. */
type AttemptFacts = Omit<Attempt, 'outcome'> & {
  outcome: Attempt['outcome'] | 'secret_unreadable';
};

type Made = { facts: AttemptFacts; body: Uint8Array | null };

export function createDeliverTask(options: DeliverOptions): Task {
  const { deliveries, gate, stopping } = options;
  const under_way = new Map<string, Promise<void>>();
  const deliver = async (id: string): Promise<void> => {
    const due = await deliveries.due(id);
    if (due === null) return;
    const entry = await gate.enter(hostOf(due.url), stopping).catch(() => null);
    if (entry === null) return deliveries.putBack(id, 0);
    if (entry.kind === 'full') return deliveries.putBack(id, entry.retry_in_ms);
    try {
      await attempt(options, id);
    } finally {
      entry.leave();
    }
  };
  return ({ id }) => {
    const before = under_way.get(id) ?? Promise.resolve();
    const mine = before.catch(() => {}).then(() => deliver(id));
    under_way.set(id, mine);
    return mine.finally(() => {
      if (under_way.get(id) === mine) under_way.delete(id);
    });
  };
}

/** The guard judges the URL later; here it only names who must share places. */
function hostOf(url: string): string {
  return URL.parse(url)?.hostname ?? '';
}

async function attempt(options: DeliverOptions, id: string): Promise<void> {
  // Asked again: time has passed in line, and another process may have been quicker.
  const delivery = await options.deliveries.open(id);
  if (delivery === null) return;
  const { facts, body } = await make(options, delivery);
  const { schedule_ms, random, observe } = options;
  const attempts = delivery.failures + 1;
  const next = nextStep({ ...facts, schedule_ms, attempts, random: random() });
  const log = options.log.child({ submission: id, attempt: delivery.attempts + 1 });
  const recorded = await untilBack(options.cut, () =>
    options.deliveries.attempted({ id, after_attempts: delivery.attempts, facts, next, body }),
  );
  observe.attempted(facts.outcome, facts.duration_ms / 1000);
  if (!recorded)
    return log.warn({ outcome: facts.outcome }, 'another process told of this attempt');
  if ('end' in next) observe.ended(next.end);
  log.info(
    { outcome: facts.outcome, status: facts.status, detail: facts.detail, ...next },
    'webhook',
  );
}

/** Makes the attempt. A secret that cannot be opened is a failure like any other: a key may come back. */
async function make(options: DeliverOptions, delivery: OpenDelivery): Promise<Made> {
  const { record, url, encrypted_secret, traceparent } = delivery;
  if (encrypted_secret === null) return unreadable('missing');
  const opened = decryptSecret(options.keys, record.id, encrypted_secret);
  if (opened.kind !== 'decrypted') return unreadable(`${opened.kind} ${opened.key_id}`);
  const body = delivery.body ?? webhookBody(record);
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
  return { facts, body };
}

function unreadable(detail: string): Made {
  const none = { status: null, address: null, retry_after_ms: null, answer_bytes: 0 };
  const outcome = 'secret_unreadable';
  return {
    facts: { ...none, outcome, detail, answer_cut: false, duration_ms: 0 },
    body: null,
  };
}

const AGAIN_MS = 200;

/** What the receiver has answered is kept while the database is away; else it would be sent to again. */
async function untilBack<T>(cut: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isAway(error) || cut.aborted) throw error;
    }
    await wait(AGAIN_MS * (0.5 + Math.random()));
  }
}
