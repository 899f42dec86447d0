/**
 * Where a webhook may go. X cannot be reached because Y:
 *
 * - A literal address in a special range: whatever its spelling, the URL parser that also decides
 *   what is dialled brings it to its canonical form first (decimal, octal, hex and short forms,
 *   full-width digits, percent-encoding), and that form is judged.
 * - A name that points into a special range: it is resolved once, every address of the answer is
 *   judged, one bad address refuses all, and only judged addresses are dialled (`send.ts` hands
 *   them to the socket and asks no resolver again). An answer that changes after the check changes
 *   nothing.
 * - A redirect into a special range: redirects are not followed.
 *
 * `allow_loopback` is the development setting: it opens 127.0.0.0/8 and ::1, and plain http to
 * them, and nothing else. Everything here is judged anew at each attempt.
 */
import { isLoopback, parseAddress, specialRange } from './address.ts';
import type { Resolver } from './resolve.ts';

export const URL_LIMIT_BYTES = 2048;

export type GuardOptions = { allow_loopback: boolean };

/** A URL that may be tried. `hostname` is bare: no brackets, no trailing dot. */
export type Target = {
  scheme: 'https' | 'http';
  hostname: string;
  port: number;
  path: string;
  /** as the Host header has it */
  authority: string;
  is_literal: boolean;
};

export type ParsedUrl = { kind: 'target'; target: Target } | { kind: 'refused'; message: string };

export type Resolved =
  | { kind: 'addresses'; addresses: string[] }
  | { kind: 'dns_failed'; code: string }
  | { kind: 'blocked_address'; address: string; range: string };

export function parseWebhookUrl(text: string, options: GuardOptions): ParsedUrl {
  const message = wrongInText(text);
  if (message !== null) return { kind: 'refused', message };
  const url = URL.parse(text);
  if (url === null) return { kind: 'refused', message: 'is not a URL with a valid host' };
  const target = targetOf(url);
  const refusal = wrongInTarget(target, options);
  return refusal === null ? { kind: 'target', target } : { kind: 'refused', message: refusal };
}

/** Judged before parsing, because the parser repairs these in silence. */
function wrongInText(text: string): string | null {
  if (Buffer.byteLength(text, 'utf8') > URL_LIMIT_BYTES)
    return `is longer than ${URL_LIMIT_BYTES} bytes`;
  if (/[\p{Cc}\p{Zs}\p{Zl}\p{Zp}\\]/u.test(text))
    return 'has white space, a control character or a backslash in it';
  if (!/^https?:\/\/[^/?#]/i.test(text)) return 'must begin with https:// and a host';
  const authority = /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? '';
  if (authority.includes('@')) return 'must not have a user name or password';
  return null;
}

function targetOf(url: URL): Target {
  const scheme = url.protocol === 'http:' ? 'http' : 'https';
  const port = url.port === '' ? (scheme === 'https' ? 443 : 80) : Number(url.port);
  const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const host = hostname.includes(':') ? `[${hostname}]` : hostname;
  return {
    scheme,
    hostname,
    port,
    path: url.pathname + url.search,
    authority: url.port === '' ? host : `${host}:${url.port}`,
    is_literal: parseAddress(hostname) !== null,
  };
}

function wrongInTarget(target: Target, options: GuardOptions): string | null {
  if (target.scheme === 'http' && !options.allow_loopback) return 'must begin with https://';
  if (target.port === 0) return 'has port 0, which no one can listen on';
  if (target.is_literal) return wrongInLiteral(target, options);
  if (!isName(target.hostname)) return 'has a host that is no name of the DNS';
  if (isLocalName(target.hostname) && !options.allow_loopback)
    return 'names this machine (loopback), which is not allowed';
  return null;
}

function wrongInLiteral(target: Target, options: GuardOptions): string | null {
  const range = refusedRange(target.hostname, target, options);
  return range === null ? null : `has an address that is not allowed (${range})`;
}

/** Letters, digits, hyphens and underscores, in labels of the DNS's own lengths. */
function isName(hostname: string): boolean {
  return (
    hostname.length <= 253 && hostname.split('.').every((label) => /^[a-z0-9_-]{1,63}$/.test(label))
  );
}

/** RFC 6761: these are loopback by definition, so there is nothing to ask a resolver. */
export function isLocalName(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost');
}

/** Why the address is refused, or null. Plain http goes to loopback alone, also behind a name. */
function refusedRange(text: string, { scheme }: Target, options: GuardOptions): string | null {
  const address = parseAddress(text);
  if (address === null) return 'not an address';
  if (options.allow_loopback && isLoopback(address)) return null;
  return specialRange(address) ?? (scheme === 'http' ? 'plain http beyond loopback' : null);
}

/** Resolves once and judges every address; the answer is what may be dialled, in the resolver's order. */
export async function resolveTarget(
  target: Target,
  resolve: Resolver,
  options: GuardOptions,
  signal: AbortSignal,
): Promise<Resolved> {
  const answer = target.is_literal
    ? { kind: 'addresses' as const, addresses: [target.hostname] }
    : await resolve(target.hostname, signal);
  if (answer.kind === 'dns_failed') return answer;
  for (const address of answer.addresses) {
    const range = refusedRange(address, target, options);
    if (range !== null) return { kind: 'blocked_address', address, range };
  }
  return answer.addresses.length > 0 ? answer : { kind: 'dns_failed', code: 'ENODATA' };
}
