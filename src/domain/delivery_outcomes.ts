/**
 * How one attempt to deliver a webhook can end, and how a delivery can. These words are public: the events hold them, the
 * metric counts them, and WEBHOOKS.md explains each.
 */
export const OUTCOMES = [
  'delivered', // 2xx
  'gone', // 410
  'redirect', // 3xx
  'refused_status', // any other status
  'timeout',
  'cut_off', // the service stopped during the attempt
  'blocked_url',
  'blocked_address',
  'dns_failed',
  'connect_failed',
  'tls_failed',
  'answer_broken', // before a status: the connection ended, or the bytes were not HTTP
  'secret_unreadable', // the attempt could not be signed
  'overdue', // it had been due for a day, and there was no room for it because others hang
] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** Nothing was sent. */
export const UNMADE_OUTCOMES = ['secret_unreadable', 'overdue'] as const;
export type UnmadeOutcome = (typeof UNMADE_OUTCOMES)[number];

/** The outcomes of an attempt that was made. */
export type AttemptOutcome = Exclude<Outcome, UnmadeOutcome>;

export const DELIVERY_ENDS = [
  'delivered',
  'gone',
  'exhausted', // the last attempt of the schedule failed
] as const;

export type DeliveryEnd = (typeof DELIVERY_ENDS)[number];

/** Before the submission has ended, and until the delivery has. */
export const DELIVERY_STATUSES = ['waiting', ...DELIVERY_ENDS] as const;

/** What the account of a submission sees of its delivery. */
export type ShownDelivery = {
  status: (typeof DELIVERY_STATUSES)[number];
  attempts: number;
  next_at: Date | null;
  last_at: Date | null;
  last_outcome: Outcome | null;
  last_status: number | null;
  ended_at: Date | null;
};

/**
 * The outcomes that an account sees. That a name leads to a blocked address is shown as a name without an address: who sends
 * names of an internal network must not learn which of them exist.
 */
export const SHOWN_OUTCOMES = OUTCOMES.filter((outcome) => outcome !== 'blocked_address');
export type ShownOutcome = (typeof SHOWN_OUTCOMES)[number];

export const shownOutcome = (outcome: Outcome): ShownOutcome =>
  outcome === 'blocked_address' ? 'dns_failed' : outcome;

/** Those that an account sees as one. A receipt has events as they are, so it leaves out the attempts that ended so. */
export const LOOK_ALIKE: readonly Outcome[] = OUTCOMES.filter(
  (outcome) => shownOutcome(outcome) === shownOutcome('blocked_address'),
);
