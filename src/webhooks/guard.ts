/**
 * Decides where a webhook may be sent. Each attempt runs all of these checks again.
 *
 * - A literal address in a special range cannot be reached in any spelling, because the URL parser
 *   first brings it to its canonical form (from decimal, octal, hex and short forms, full-width
 *   digits, percent-encoding). The guard checks that form, and that form is dialled.
 * - A name cannot lead to a special range, because it is resolved once, the guard checks every
 *   address of the answer, one blocked address blocks all, and only checked addresses are dialled:
 *   `send.ts` passes them to the socket and asks no resolver again. A DNS answer that changes after
 *   the check has no effect.
 * - A redirect cannot lead to a special range, because redirects are not followed.
 *
 * `allow_loopback` is the development setting: it allows 127.0.0.0/8 and ::1, also with plain http,
 * and nothing else.
 */
import { isIP } from 'node:net';
import { URL_LIMIT_BYTES } from '../domain/webhook_secret.ts';
import { isLoopback, parseAddress, specialRange } from './address.ts';
import { isLocalName, isName } from './host_name.ts';
import type { Resolver } from './resolve.ts';

export type GuardOptions = { allow_loopback: boolean };

/** Where to send: a URL that passed the guard. `hostname` has no brackets and no trailing dot. */
export type Target = {
  scheme: 'https' | 'http';
  hostname: string;
  port: number;
  path: string;
  /** for the Host header */
  authority: string;
  is_literal: boolean;
};

export type ParsedUrl = { kind: 'target'; target: Target } | { kind: 'blocked'; message: string };

export type Resolved =
  | { kind: 'addresses'; addresses: string[] }
  | { kind: 'dns_failed'; code: string }
  | { kind: 'blocked_address'; address: string; range: string };

export function parseWebhookUrl(text: string, options: GuardOptions): ParsedUrl {
  const message = problemInText(text);
  if (message !== null) return { kind: 'blocked', message };
  const url = URL.parse(text);
  if (url === null) return { kind: 'blocked', message: 'is not a URL with a valid host' };
  const target = targetOf(url);
  const problem = problemInTarget(target, options);
  return problem === null ? { kind: 'target', target } : { kind: 'blocked', message: problem };
}

/** Checked before parsing, because the parser repairs these without an error. */
function problemInText(text: string): string | null {
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

function problemInTarget(target: Target, options: GuardOptions): string | null {
  if (target.scheme === 'http' && !options.allow_loopback) return 'must begin with https://';
  if (target.port === 0) return 'has port 0, which no one can listen on';
  if (target.is_literal) return problemInLiteral(target, options);
  if (!isName(target.hostname)) return 'has a host that is not a valid DNS name';
  if (isLocalName(target.hostname) && !options.allow_loopback)
    return 'names this machine (loopback), which is not allowed';
  return null;
}

function problemInLiteral(target: Target, options: GuardOptions): string | null {
  const range = blockedRange(target.hostname, target, options);
  return range === null ? null : `has an address that is not allowed (${range})`;
}

/** The range for which the address is blocked, or null. Plain http may only go to loopback, also by name. */
function blockedRange(text: string, { scheme }: Target, options: GuardOptions): string | null {
  const address = parseAddress(text);
  if (address === null) return 'not an address';
  if (options.allow_loopback && isLoopback(address)) return null;
  return specialRange(address) ?? (scheme === 'http' ? 'plain http beyond loopback' : null);
}

/** Of each family. An answer can have thousands, and each would be dialled until one answers. */
const MOST_DIALLED = 4;

/** Resolves once and checks every address. The first of each family may be dialled, in the resolver's order. */
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
    const range = blockedRange(address, target, options);
    if (range !== null) return { kind: 'blocked_address', address, range };
  }
  if (answer.addresses.length === 0) return { kind: 'dns_failed', code: 'ENODATA' };
  const once = [...new Set(answer.addresses)];
  const families = [4, 6].map((family) => once.filter((each) => isIP(each) === family));
  const dialled = new Set(families.flatMap((addresses) => addresses.slice(0, MOST_DIALLED)));
  return { kind: 'addresses', addresses: once.filter((each) => dialled.has(each)) };
}
