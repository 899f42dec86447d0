/** What the handlers have in common: the parts that they work with, made once by startWeb. */
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Results } from '../store/results.ts';
import type { Health } from '../store/service_health.ts';
import type { EncryptedSecret, Submissions } from '../store/submissions.ts';
import type { Waiters } from '../store/waiters.ts';
import type { Exchange } from './exchange.ts';
import type { SubmissionParse } from './parse_submission.ts';
import type { Answer } from './problem.ts';
import type { SpentKeys } from './spent_keys.ts';

/** Null: this deployment has no key to encrypt their secrets with, and takes no webhooks. */
export type WebhookPort = {
  /** why a result cannot be delivered to that address, or null */
  refuseUrl: (url: string) => string | null;
  encrypt: (submission_id: string, secret: string) => EncryptedSecret;
} | null;

export type Web = {
  readonly config: Config;
  readonly log: Log;
  readonly submissions: Submissions;
  readonly results: Results;
  readonly waiters: Waiters;
  readonly health: Health;
  readonly spent_keys: SpentKeys;
  readonly webhooks: WebhookPort;
  readonly digest_key: Uint8Array;
  readonly parseSubmission: (body: Uint8Array) => SubmissionParse;
  readonly openapi: Uint8Array;
  /** false from the moment that it stops: a router then sends to others */
  isOpen: () => boolean;
};

/** Null: the client is gone, there is nobody to answer. */
export type OpenHandler = (web: Web, exchange: Exchange) => Promise<Answer> | Answer;
export type KeyedHandler = (
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
) => Promise<Answer | null>;

export type Route = { method: 'GET' | 'POST'; path: string } & (
  | { keyed: true; handler: KeyedHandler }
  | { keyed: false; handler: OpenHandler }
);
