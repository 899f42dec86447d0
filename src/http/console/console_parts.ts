/** What the console works with, and the form of its calls. console_routes.ts has the table of them. */
import type { Log } from '../../log.ts';
import type { Asking, Console } from '../../store/console.ts';
import type { Sessions } from '../../store/operators.ts';
import type { WebhookPort } from '../api/api_call.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import type { KnownSessions } from './known_sessions.ts';
import type { Live } from './live.ts';
import type { Session } from './session_cookie.ts';
import type { SignInLimit } from './sign_in_limit.ts';

export type ConsoleParts = {
  readonly log: Log;
  readonly store: Console;
  readonly sessions: Sessions;
  readonly known_sessions: KnownSessions;
  readonly live: Live;
  readonly sign_ins: SignInLimit;
  readonly webhooks: WebhookPort;
  /** Of new keys. */
  readonly key_prefix: string;
  readonly over_tls: boolean;
  /** A router in front says who the client is. */
  readonly trust_router: boolean;
};

/** A request of an operator who is signed in. */
export type Visit = {
  readonly exchange: Exchange;
  readonly session: Session;
  readonly operator: string;
  /** For the store. */
  readonly asking: Asking;
  readonly query: URLSearchParams;
};

/** Null: the client is gone. */
type Answering = Promise<Answer | null>;

/**
 * A call of the console. `open` needs no session. A `form` changes something: it is sent by POST from a page of this console, which
 * is checked before its handler is called.
 */
export type ConsoleCall = { readonly path: string } & (
  | { kind: 'open'; handler: (parts: ConsoleParts, exchange: Exchange) => Answering }
  | {
      kind: 'open form';
      handler: (parts: ConsoleParts, exchange: Exchange, form: URLSearchParams) => Answering;
    }
  | { kind: 'page'; handler: (parts: ConsoleParts, visit: Visit) => Answering }
  | {
      kind: 'form';
      handler: (parts: ConsoleParts, visit: Visit, form: URLSearchParams) => Answering;
    }
);
