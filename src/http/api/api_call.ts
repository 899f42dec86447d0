/**
 * A call of the API: its address, its entry in the OpenAPI document, and its handler. One file of this folder describes
 * one call (the two health calls and the two probes share theirs), and calls.ts lists them. The document and the page derive from
 * that list. The console has addresses, too, which are in no document (http/console).
 */
import type { Config } from '../../config.ts';
import type { Log } from '../../log.ts';
import type { Cancel } from '../../store/cancel.ts';
import type { WitnessState } from '../../store/cosignatures.ts';
import type { Update } from '../../store/event_feed.ts';
import type { LargeRecords } from '../../store/large_records.ts';
import type { Lists } from '../../store/lists.ts';
import type { Receipts } from '../../store/receipts.ts';
import type { Results } from '../../store/results.ts';
import type { Health } from '../../store/service_health.ts';
import type { EncryptedSecret, Submissions } from '../../store/submissions.ts';
import type { TestSets } from '../../store/test_sets.ts';
import type { Turns } from '../../store/turns.ts';
import type { Waiters } from '../../store/waiters.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import type { EventStreams } from './event_streams.ts';
import type { Failures } from './failures.ts';
import type { KnownKeys } from './known_keys.ts';
import type { Operation } from './operation.ts';
import type { SubmissionParser } from './parse_submission.ts';
import type { Readiness } from './readiness.ts';
import type { SpentKeys } from './spent_keys.ts';
import type { Uploads } from './uploads.ts';

export type Route = {
  method: 'GET' | 'POST' | 'DELETE';
  /** a part in braces is a parameter: `{id}` */
  path: string;
} & ({ keyed: true; handler: KeyedHandler } | { keyed: false; handler: OpenHandler });

export type ApiCall = Route & { operation: Operation };

/** Null: the client is gone, and nothing is answered. */
export type KeyedHandler = (
  web: Web,
  exchange: Exchange,
  /** of the key that the request presents; nothing is known of it before the database has answered */
  digest: Uint8Array,
) => Promise<Answer | null>;

export type OpenHandler = (web: Web, exchange: Exchange) => Promise<Answer | null> | Answer;

/** The parts that handlers work with, made once by startWeb. */
export type Web = {
  readonly config: Config;
  readonly log: Log;
  readonly submissions: Submissions;
  readonly cancel: Cancel;
  /** All that has happened to a submission; null: there is none of that id. `account_id`: in whose line the caller waits. */
  readonly happenings: (account_id: string, id: string) => Promise<Update | null>;
  readonly lists: Lists;
  readonly results: Omit<Results, 'knows' | 'own'>;
  readonly receipts: Receipts;
  readonly test_sets: TestSets;
  readonly uploads: Uploads;
  readonly waiters: Waiters;
  readonly large_records: Pick<LargeRecords, 'open'> & { readonly turns: Turns };
  readonly large_bodies: { readonly reading: Turns; readonly storing: Turns };
  readonly known_keys: KnownKeys;
  readonly event_streams: EventStreams;
  readonly health: Health;
  readonly witnesses: () => readonly WitnessState[];
  /** Why this process signs no checkpoints; null while it does. */
  readonly sealingProblem: () => string | null;
  readonly spent_keys: SpentKeys;
  readonly webhooks: WebhookPort;
  readonly digest_key: Uint8Array;
  readonly parseSubmission: SubmissionParser['body'];
  readonly parseItem: SubmissionParser['item'];
  readonly openapi: Uint8Array;
  /** the page for people, for the address at which the caller sees this service */
  readonly page: (origin: string) => Answer;
  readonly failures: Failures;
  readonly readiness: Readiness;
  /** false from the moment that the process stops: a router then sends to others */
  isOpen: () => boolean;
};

/** Null: this deployment has no key to encrypt webhook secrets with, and accepts no webhooks. */
export type WebhookPort = {
  /** why a result cannot be delivered to that address, or null */
  urlProblem: (url: string) => string | null;
  encrypt: (submission_id: string, secret: string) => EncryptedSecret;
} | null;
