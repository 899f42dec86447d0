/**
 * Resolves names with the DNS alone: no hosts file and no search domains, because a webhook names a
 * host of the internet and not of this network. It does not use libuv's four threads either, where
 * a few slow names would block every file access of the process.
 */
import { Resolver as DnsResolver } from 'node:dns/promises';
import { isLocalName } from './host_name.ts';

export type Answer =
  | { kind: 'addresses'; addresses: string[] }
  | { kind: 'dns_failed'; code: string };

/** Passed in as a value, so that tests decide what the DNS answers. Settles when the signal aborts, at the latest. */
export type Resolver = (hostname: string, signal: AbortSignal) => Promise<Answer>;

/** Short enough to leave time for the next server within an attempt's 15 s. */
const QUERY_TIMEOUT_MS = 2000;
const QUERY_TRIES = 2;

/** `servers` are written as `address[:port]`; the default is the machine's own configuration. */
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

/** IPv4 first, because many platforms have no IPv6 route out. One family is enough; it fails when both do. */
function answerOf(families: PromiseSettledResult<string[]>[]): Answer {
  const addresses = families.flatMap((family) =>
    family.status === 'fulfilled' ? family.value : [],
  );
  if (addresses.length > 0) return { kind: 'addresses', addresses };
  const codes = families.flatMap((family) =>
    family.status === 'rejected' ? [codeOf(family.reason)] : [],
  );
  // A server that failed explains more than "no address of this family", so its code goes first.
  const code =
    codes.find((each) => each !== 'ENODATA' && each !== 'ENOTFOUND') ?? codes[0] ?? 'ENODATA';
  return { kind: 'dns_failed', code };
}

function codeOf(reason: unknown): string {
  return (reason as NodeJS.ErrnoException | undefined)?.code ?? 'UNKNOWN';
}
