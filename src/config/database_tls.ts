/**
 * TLS to the database. There are two clients, and they read `sslmode` in an address differently: at `require`
 * graphile-worker's pg checks certificates, and postgres.js does not. So `sslmode` is removed from the address, and both
 * clients get the same TLS options instead.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import { type Config, isLoopback } from '../config.ts';
import {
  encodeDatabase,
  isSocketFolder,
  leaveOutWithoutEffect,
  tlsModeOf,
} from './database_url.ts';

export type DatabaseAddress = {
  /** without sslmode, ssl, sslrootcert and what changes nothing */
  readonly url: string;
  readonly tls:
    | false
    | Pick<ConnectionOptions, 'rejectUnauthorized' | 'ca' | 'checkServerIdentity'>;
  /** True behind a pooler, which rejects startup parameters that it does not know (src/store/pooler.ts). */
  readonly pooled?: boolean;
};

const WITHOUT_TLS = new Set(['disable', 'false', '0']);
/** The value of sslrootcert for the authorities that Node knows. */
const SYSTEM = 'system';
const CHECKED = new Set(['verify-full', 'verify-ca']);

export function databaseAddress(
  config: Pick<Config, 'database_tls' | 'database_ca_file'> & {
    readonly database_pooled?: boolean;
  },
  url: string,
): DatabaseAddress {
  const address = withTlsOptions(config, url);
  return config.database_pooled ? { ...address, pooled: true } : address;
}

function withTlsOptions(
  config: Pick<Config, 'database_tls' | 'database_ca_file'>,
  url: string,
): DatabaseAddress {
  const parsed = new URL(url);
  const mode = config.database_tls === 'auto' ? modeOf(parsed) : config.database_tls;
  const root = parsed.searchParams.get('sslrootcert');
  for (const name of ['sslmode', 'ssl', 'sslrootcert']) parsed.searchParams.delete(name);
  leaveOutWithoutEffect(parsed);
  encodeDatabase(parsed);
  // A local socket has no network, and no TLS.
  if (WITHOUT_TLS.has(mode) || isSocketFolder(parsed.hostname))
    return { url: parsed.href, tls: false };
  const file = config.database_ca_file ?? (root === SYSTEM ? null : root);
  const ca = file ? readFileSync(file, 'utf8') : null;
  const rejectUnauthorized = ca !== null || root === SYSTEM || CHECKED.has(mode);
  return {
    url: parsed.href,
    tls: { rejectUnauthorized, ...(ca ? { ca } : {}), ...checkOfAddress(parsed.hostname) },
  };
}

/**
 * A server name cannot be an IP address, so for one neither client names the host that it wants, and Node would look for
 * `localhost` in the certificate.
 */
function checkOfAddress(hostname: string): Pick<ConnectionOptions, 'checkServerIdentity'> {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) === 0) return {};
  return { checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate) };
}

function modeOf(url: URL): string {
  const has_root = url.searchParams.has('sslrootcert');
  return tlsModeOf(url) ?? (isOnThisMachine(url) && !has_root ? 'disable' : 'require');
}

export function isOnThisMachine({ hostname }: URL): boolean {
  return isLoopback(hostname) || hostname === '' || isSocketFolder(hostname);
}
