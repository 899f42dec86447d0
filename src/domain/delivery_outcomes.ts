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
  'secret_unreadable', // nothing was sent, because nothing could be signed
] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** The outcomes of an attempt that had a secret to sign with. */
export type AttemptOutcome = Exclude<Outcome, 'secret_unreadable'>;

export const DELIVERY_ENDS = [
  'delivered',
  'gone',
  'exhausted', // the last attempt of the schedule failed
] as const;

export type DeliveryEnd = (typeof DELIVERY_ENDS)[number];
