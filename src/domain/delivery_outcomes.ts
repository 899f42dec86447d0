/** How attempts to deliver a webhook, and deliveries, end. Types and the schemas of events derive from these lists. */

export const ATTEMPT_OUTCOMES = {
  delivered: 'a status of 2xx',
  gone: 'status 410: the receiver wants no more',
  redirect: 'a status of 3xx, which is not followed',
  refused_status: 'any other status',
  timeout: 'no whole answer in time',
  cut_off:
    'the web process stopped during the attempt; it is repeated and takes no place in the schedule',
  blocked_url: 'the address is of a form that may not be called',
  blocked_address: 'the name resolves to an address that may not be called',
  dns_failed: 'the name could not be resolved',
  connect_failed: 'no connection',
  tls_failed: 'no TLS, or a certificate that does not verify',
  answer_broken: 'the connection ended, or the bytes were not HTTP, before there was a status',
  secret_unreadable: 'the secret could not be decrypted, so nothing was sent',
} as const;

/** Of an attempt that was made. */
export type AttemptOutcome = Exclude<keyof typeof ATTEMPT_OUTCOMES, 'secret_unreadable'>;

/** gone: by status 410. exhausted: the schedule is over. */
export const DELIVERY_ENDS = ['delivered', 'gone', 'exhausted'] as const;

export type DeliveryEnd = (typeof DELIVERY_ENDS)[number];
