/** Signing in to the console with an operator's key, and out. */
import { presentedSecret } from '../../access/secret.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText } from '../wire/header_values.ts';
import { barePage, CONSOLE, redirect } from './console_page.ts';
import type { ConsoleCall, ConsoleParts } from './console_parts.ts';
import { html } from './markup.ts';
import { cookieOf, endedCookie, newSession } from './session_cookie.ts';
import { routedAddress } from './sign_in_limit.ts';

const PATH = `${CONSOLE}/sign-in`;
/** In the query of the sign-in, after a form. */
const UNCHANGED = 'unchanged';
const UNAUTHORIZED = 401;
const TOO_MANY = 429;

/** Where a page sends somebody who is not signed in, and who then gets that page. */
export const toSignIn = ({ path, query }: Exchange, headers: Answer['headers'] = {}): Answer =>
  redirect(
    `${PATH}?${new URLSearchParams({ to: path + (query === '' ? '' : `?${query}`) })}`,
    headers,
  );

/** The same for a form, whose address is no page. A sign-out changes nothing else, so it gets no such message. */
export const formToSignIn = ({ path }: Exchange, headers: Answer['headers'] = {}): Answer =>
  redirect(path === CONSOLE + signOut.path ? PATH : `${PATH}?${UNCHANGED}`, headers);

/** Only to a page of the console, whatever the link says. */
const target = (given: string | null): string =>
  given !== null && /^\/console(\/[a-z0-9/-]*)?(\?[\w%&=.+-]*)?$/.test(given) ? given : CONSOLE;

/** A browser sends no cookie behind a link of another site (session_cookie.ts), but it does behind a link of this page. */
const goOn = (to: string) => html`<p><a href="${to}">Already signed in? Go on</a></p>`;

const signInPage = (to: string, problem: string | null, status: number = STATUS.ok): Answer =>
  barePage({
    title: 'Sign in',
    status,
    main: html`${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
<form method="post" action="${PATH}">
<input type="hidden" name="to" value="${to}">
<label>Operator’s key <input type="password" name="key" autocomplete="current-password" required="required" autofocus="autofocus"></label>
<button>Sign in</button>
</form>
${problem === null && goOn(to)}
<p>An operator makes a key with <code>./runledger operator create NAME</code>.</p>`,
  });

export const showSignIn: ConsoleCall = {
  path: '/sign-in',
  kind: 'open',
  async handler(_, { query }) {
    const given = new URLSearchParams(query);
    const problem = given.has(UNCHANGED)
      ? 'You were not signed in any more, so nothing was changed: sign in, and do it again.'
      : null;
    return signInPage(target(given.get('to')), problem);
  },
};

export const signIn: ConsoleCall = {
  path: '/sign-in',
  kind: 'open form',
  async handler(parts, exchange, form) {
    const to = target(form.get('to'));
    const address = addressOf(parts, exchange);
    const wait_s = parts.sign_ins.wait_s(address);
    if (wait_s !== null) {
      const page = signInPage(to, `Too many attempts: wait ${wait_s} seconds.`, TOO_MANY);
      return { ...page, headers: { ...page.headers, 'Retry-After': wait_s } };
    }
    const digest = presentedSecret(form.get('key')?.trim() ?? '', 'operator');
    const session = newSession();
    const lasts_s = digest && (await parts.sessions.begin(digest, session.digest, exchange.id));
    if (lasts_s === null) {
      parts.log.warn({ request_id: exchange.id, address }, 'a sign-in to the console was rejected');
      return signInPage(to, 'No operator has this key.', UNAUTHORIZED);
    }
    parts.sign_ins.forget(address);
    return redirect(to, { 'Set-Cookie': cookieOf(session, lasts_s, parts.over_tls) });
  },
};

export const signOut: ConsoleCall = {
  path: '/sign-out',
  kind: 'form',
  async handler(parts, { exchange, session }) {
    await parts.sessions.end(session.digest, exchange.id);
    parts.known_sessions.forget();
    return redirect(PATH, { 'Set-Cookie': endedCookie(parts.over_tls) });
  },
};

function addressOf({ trust_router }: ConsoleParts, { req }: Exchange): string {
  const peer = req.socket.remoteAddress ?? '';
  return trust_router ? routedAddress(headerText(req.headers['x-forwarded-for']), peer) : peer;
}
