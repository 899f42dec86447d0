/**
 * The cookie of an operator's session, and the token of its forms.
 *
 * The cookie is 32 random bytes, of which the database has the digest. Scripts cannot read it, and a browser does not send it with
 * requests that another site causes. A form that changes something also has a token, which only a page of this session can know.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export type Session = { readonly secret: string; readonly digest: Uint8Array };

const SECRET = /^[A-Za-z0-9_-]{43}$/;

export const newSession = (): Session => sessionOf(randomBytes(32).toString('base64url'));

const sessionOf = (secret: string): Session => ({ secret, digest: sha256(secret) });

const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Null without a cookie of ours, and where there are two: another application of the same host may have set one. */
export function readSession(req: IncomingMessage, over_tls: boolean): Session | null {
  const head = `${nameOf(over_tls)}=`;
  const cookies = (req.headers.cookie ?? '').split(';').map((cookie) => cookie.trim());
  const [found, ...more] = cookies.filter((cookie) => cookie.startsWith(head));
  const secret = found?.slice(head.length) ?? '';
  return more.length === 0 && SECRET.test(secret) ? sessionOf(secret) : null;
}

export const cookieOf = (session: Session, lasts_s: number, over_tls: boolean): string =>
  cookie(session.secret, lasts_s, over_tls);

export const endedCookie = (over_tls: boolean): string => cookie('', 0, over_tls);

/** A browser takes a cookie of the first name only over TLS, and from this host itself. */
const nameOf = (over_tls: boolean) => (over_tls ? '__Host-runledger-console' : 'runledger-console');

function cookie(value: string, seconds: number, over_tls: boolean): string {
  const where = over_tls ? 'Path=/; Secure' : 'Path=/console';
  return `${nameOf(over_tls)}=${value}; ${where}; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
}

export const formToken = ({ secret }: Session): string =>
  createHash('sha256').update(`form ${secret}`).digest('base64url');

export function isFormToken(session: Session, given: string): boolean {
  return timingSafeEqual(sha256(given), sha256(formToken(session)));
}

/**
 * Whether a page of another host loads this into itself. The host may be of the same site, and then the browser sends the cookie: the
 * log would have a look of an operator who saw nothing. What the operator opens in a window of its own is no such load.
 */
export function isForeignLoad({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  return (
    (site === 'same-site' || site === 'cross-site') && headers['sec-fetch-dest'] !== 'document'
  );
}

/**
 * Whether a page of this service caused the request. A browser says so in one of the two headers, and no script can set them. Over
 * TLS, a page without it is not of this service: anybody on the way could have made it.
 */
export function isSameOrigin({ headers }: IncomingMessage, over_tls: boolean): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin, host } = headers;
  return origin === `https://${host}` || (!over_tls && origin === `http://${host}`);
}
