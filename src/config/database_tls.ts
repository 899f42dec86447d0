/**
 * TLS to the database, said once for both clients: postgres.js and graphile-worker's pg read
 * `sslmode` in an address differently (pg checks certificates at `require`, postgres.js does not), so
 * it is taken out of the address and given to both as TLS options.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import { type Config, isLoopback } from '../config.ts';

export type DatabaseAddress = {
  /** Without sslmode and its kin. */
  readonly url: string;
  readonly tls:
    | false
    | Pick<ConnectionOptions, 'rejectUnauthorized' | 'ca' | 'checkServerIdentity'>;
};

const WITHOUT_TLS = new Set(['disable', 'false']);
const CHECKED = new Set(['verify-full', 'verify-ca']);

export function databaseAddress(
  config: Pick<Config, 'database_tls' | 'database_ca_file'>,
  url: string,
): DatabaseAddress {
  const parsed = new URL(url);
  const mode = config.database_tls === 'auto' ? modeOf(parsed) : config.database_tls;
  for (const name of ['sslmode', 'ssl', 'sslrootcert']) parsed.searchParams.delete(name);
  if (WITHOUT_TLS.has(mode)) return { url: parsed.href, tls: false };
  const ca = config.database_ca_file ? readFileSync(config.database_ca_file, 'utf8') : null;
  const rejectUnauthorized = ca !== null || CHECKED.has(mode);
  return {
    url: parsed.href,
    tls: { rejectUnauthorized, ...(ca ? { ca } : {}), ...checkOfAddress(parsed.hostname) },
  };
}

/**
 * Neither client says which host it wants when that is a bare address (a server name may not be
 * one), and Node would then look for `localhost` in the certificate.
 */
function checkOfAddress(hostname: string): Pick<ConnectionOptions, 'checkServerIdentity'> {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) === 0) return {};
  return { checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate) };
}

function modeOf(url: URL): string {
  const said = url.searchParams.get('sslmode') ?? url.searchParams.get('ssl');
  if (said) return said === 'true' ? 'require' : said;
  // A socket's folder is written percent-encoded in the place of the host.
  const local = isLoopback(url.hostname) || url.hostname === '' || url.hostname.startsWith('%2F');
  return local ? 'disable' : 'require';
}
