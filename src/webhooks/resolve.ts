/**
 * Names to addresses by the DNS alone: no hosts file, no search domains (a webhook names a host of
 * the internet, not of this network), and not on libuv's four threads, where a few slow names would
 * stop every file access of the process.
 */
import { Resolver as DnsResolver } from 'node:dns/promises';
import { isLocalName } from './guard.ts';

export type Answer =
  | { kind: 'addresses'; addresses: string[] }
  | { kind: 'dns_failed'; code: string };

/** A value, so that tests decide what the DNS says. Settles at the latest when the signal aborts. */
export type Resolver = (hostname: string, signal: AbortSignal) => Promise<Answer>;

/** One server that does not answer must leave time for the next within an attempt's 15 s. */
const QUERY_TIMEOUT_MS = 2000;
const QUERY_TRIES = 2;

/** `servers` as `address[:port]`; without it, the machine's own. */
export function createDnsResolver(options: { servers?: string[] } = {}): Resolver {
  return async (hostname, signal) => {
    if (isLocalName(hostname)) return { kind: 'addresses', addresses: ['127.0.0.1', '::1'] };
    const dns = new DnsResolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES });
    if (options.servers !== undefined) dns.setServers(options.servers);
    const cancel = () => dns.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return answerOf(await Promise.allSettled([dns.resolve4(hostname), dns.resolve6(hostname)]));
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  };
}

/** IPv4 first: many platforms have no way out over IPv6. One family is enough; two failures are a failure. */
function answerOf(families: PromiseSettledResult<string[]>[]): Answer {
  const addresses = families.flatMap((family) =>
    family.status === 'fulfilled' ? family.value : [],
  );
  if (addresses.length > 0) return { kind: 'addresses', addresses };
  const codes = families.flatMap((family) =>
    family.status === 'rejected' ? [codeOf(family.reason)] : [],
  );
  // "There is none of this family" is the weaker news: a server that failed is worth naming first.
  const code =
    codes.find((each) => each !== 'ENODATA' && each !== 'ENOTFOUND') ?? codes[0] ?? 'ENODATA';
  return { kind: 'dns_failed', code };
}

function codeOf(reason: unknown): string {
  return (reason as NodeJS.ErrnoException | undefined)?.code ?? 'UNKNOWN';
}
