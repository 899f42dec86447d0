/**
 * Every address of the console, and the checks before each. They are in no OpenAPI document.
 *
 * What must stay true: without an operator there is no console; a page needs a session; and what changes something comes from a
 * page of this console, in that session. The database checks the session once more (sql/functions/operators.sql).
 */
import { codeOf } from '../../db.ts';
import { isSignedOut } from '../../store/operators.ts';
import type { Route } from '../api/api_call.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { readBody } from '../wire/read_body.ts';
import { accountPage, accountsPage } from './account_pages.ts';
import { assets } from './assets.ts';
import { CONSOLE, messagePage } from './console_page.ts';
import type { ConsoleCall, ConsoleParts, Visit } from './console_parts.ts';
import { deliveriesPage, replay } from './delivery_pages.ts';
import { createKey, revokeKey, rotateKey } from './key_pages.ts';
import { commandsPage, logPage } from './log_page.ts';
import { liveState, overview } from './overview.ts';
import { payloadBytes } from './payload_bytes.ts';
import { searchPage } from './search_page.ts';
import {
  endedCookie,
  isForeignLoad,
  isFormToken,
  isSameOrigin,
  readSession,
} from './session_cookie.ts';
import { formToSignIn, showSignIn, signIn, signOut, toSignIn } from './sign_in.ts';
import { submissionPage } from './submission_page.ts';
import { setTier, tiersPage } from './tier_page.ts';

const CALLS: readonly ConsoleCall[] = [
  overview,
  liveState,
  searchPage,
  submissionPage,
  payloadBytes,
  replay,
  deliveriesPage,
  accountsPage,
  accountPage,
  createKey,
  rotateKey,
  revokeKey,
  tiersPage,
  setTier,
  logPage,
  commandsPage,
  showSignIn,
  signIn,
  signOut,
  ...assets,
];

const FORM_BYTES = 16 * 1024;
const FORM_TYPE = /^application\/x-www-form-urlencoded *(;|$)/i;

const NO_CONSOLE: Answer = {
  status: 404,
  type: 'text/plain; charset=utf-8',
  body: Buffer.from(
    'There is no console here: make a key for it with `./runledger operator create NAME`.\n',
  ),
};
const FOREIGN_FORM: Answer = {
  status: 403,
  type: 'text/plain; charset=utf-8',
  body: Buffer.from(
    'This did not come from a page of this console: open the page again, and send it from there.\n',
  ),
};

const FOREIGN_LOAD: Answer = {
  status: 403,
  type: 'text/plain; charset=utf-8',
  body: Buffer.from('The console is no part of another page: open it in a window of its own.\n'),
};

export const consoleRoutes = (parts: ConsoleParts): Route[] =>
  CALLS.map((call) => ({
    method: call.kind === 'form' || call.kind === 'open form' ? 'POST' : 'GET',
    path: CONSOLE + call.path,
    keyed: false,
    handler: async (_, exchange) =>
      (await parts.known_sessions.anyOperator()) ? answerTo(parts, exchange, call) : NO_CONSOLE,
  }));

async function answerTo(
  parts: ConsoleParts,
  exchange: Exchange,
  call: ConsoleCall,
): Promise<Answer | null> {
  const isForm = call.kind === 'form' || call.kind === 'open form';
  if (isForm && !isSameOrigin(exchange.req, parts.over_tls)) return FOREIGN_FORM;
  if (isForeignLoad(exchange.req)) return FOREIGN_LOAD;
  if (call.kind === 'open') return call.handler(parts, exchange);
  if (call.kind === 'open form') {
    const form = await readForm(exchange);
    return form instanceof URLSearchParams ? call.handler(parts, exchange, form) : form;
  }
  const visit = await visitOf(parts, exchange);
  if (visit === null) return isForm ? formToSignIn(exchange) : toSignIn(exchange);
  try {
    if (call.kind === 'page') return withNul(visit) ?? (await call.handler(parts, visit));
    const form = await readForm(exchange);
    if (!(form instanceof URLSearchParams)) return form;
    if (!isFormToken(visit.session, form.get('token') ?? '')) return FOREIGN_FORM;
    return withNul(visit, form) ?? (await call.handler(parts, visit, form));
  } catch (error) {
    return answerToError(parts, visit, isForm, error);
  }
}

/** No text of the database has this character, and it would answer with an error. */
function withNul(visit: Visit, form = new URLSearchParams()): Answer | null {
  const given = [
    ...Object.values(visit.exchange.params),
    ...visit.query.values(),
    ...form.values(),
  ];
  if (!given.some((text) => text.includes('\0'))) return null;
  return messagePage(visit, 400, 'No such text', 'No text here has the character NUL.');
}

async function visitOf(parts: ConsoleParts, exchange: Exchange): Promise<Visit | null> {
  const session = readSession(exchange.req, parts.over_tls);
  const operator = session && (await parts.known_sessions.nameOf(session.digest));
  if (operator === null) return null;
  return {
    exchange,
    session: session!,
    operator,
    asking: { session: session!.digest, request_id: exchange.id },
    query: new URLSearchParams(exchange.query),
  };
}

/** What the database rejects is said on a page; everything else is a failure like that of any other request. */
function answerToError(parts: ConsoleParts, visit: Visit, isForm: boolean, error: unknown): Answer {
  if (isSignedOut(error)) {
    parts.known_sessions.forget();
    const headers = { 'Set-Cookie': endedCookie(parts.over_tls) };
    return isForm ? formToSignIn(visit.exchange, headers) : toSignIn(visit.exchange, headers);
  }
  const status = { RL400: 400, RL404: 404, RL409: 409 }[codeOf(error)];
  if (status === undefined) throw error;
  return messagePage(visit, status, 'Nothing was changed', (error as Error).message);
}

async function readForm({ req, res }: Exchange): Promise<URLSearchParams | Answer | null> {
  const text = (status: number, line: string): Answer => ({
    status,
    type: 'text/plain; charset=utf-8',
    body: Buffer.from(`${line}\n`),
  });
  if (!FORM_TYPE.test(req.headers['content-type'] ?? '')) return text(415, 'Send a form.');
  const body = await readBody(req, res, {
    most_bytes: FORM_BYTES,
    small_bytes: FORM_BYTES,
    mayRead: async () => 'inside',
    mayGrow: () => 'inside',
  });
  if (body === 'gone') return null;
  if (body === 'too_large') return { ...text(413, 'The form is too large.'), close: true };
  return new URLSearchParams(Buffer.from(body as Uint8Array).toString());
}
