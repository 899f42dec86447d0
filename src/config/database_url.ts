/** What the address of a PostgreSQL says. The two clients read it differently, and both read less of it than libpq. */

type Peer = { host: string[]; port: number[]; path?: string };

const decodes = (word: string): boolean => {
  try {
    decodeURIComponent(word);
    return true;
  } catch {
    return false;
  }
};

/** The part of the address with a % that stands for nothing; null if there is none. Neither client could read it. */
export function undecodablePart(url: string): string | null {
  const { username, password, hostname, pathname } = new URL(url);
  const parts = { user: username, password, host: hostname, database: pathname };
  return Object.entries(parts).find(([, word]) => !decodes(word))?.[0] ?? null;
}

/** The name of the database; empty if the address has none. */
const databaseOf = ({ pathname }: URL): string => decodeURIComponent(pathname.slice(1));

/** graphile-worker's pg does not decode these two in a name. */
export const canBeNamed = (url: string): boolean => !/%(23|3f)/i.test(new URL(url).pathname);

/** With as little encoded as can be: graphile-worker's pg leaves %2F and some others as they are. */
export function encodeDatabase(url: URL): void {
  const name = databaseOf(url);
  if (name !== '') url.pathname = `/${encodeURI(name)}`;
}

/** The folder of a local socket is percent-encoded where the host would be. */
export const isSocketFolder = (hostname: string): boolean => /^%2f/i.test(hostname);

/**
 * Where postgres.js is to connect, if it does not see that itself: it decodes neither a folder nor the name of a database, and
 * takes the first colon of an IPv6 address for that before the port.
 */
export function peerOf(url: string): Partial<Peer> & { database?: string } {
  const database = databaseOf(new URL(url));
  return { ...hostOf(url), ...(database !== '' && { database }) };
}

function hostOf(url: string): Partial<Peer> {
  const { hostname, port } = new URL(url);
  const at = { port: [Number(port || 5432)] };
  if (isSocketFolder(hostname)) {
    const path = `${decodeURIComponent(hostname)}/.s.PGSQL.${at.port}`;
    return { ...at, host: ['localhost'], path };
  }
  return hostname.startsWith('[') ? { ...at, host: [hostname.slice(1, -1)] } : {};
}

/** Parameters of libpq that change nothing here, with these values or with any. A server would not know them. */
const WITHOUT_EFFECT: Readonly<Record<string, readonly string[] | 'any'>> = {
  channel_binding: ['disable', 'prefer'],
  gssencmode: ['disable', 'prefer'],
  load_balance_hosts: ['disable'],
  sslcertmode: ['disable', 'allow'],
  target_session_attrs: ['any'],
  // Of pg alone: how it reads sslmode.
  uselibpqcompat: 'any',
  ...Object.fromEntries(
    [
      ...['fallback_application_name', 'gssdelegation', 'gsslib', 'krbsrvname'],
      ...['keepalives', 'keepalives_count', 'keepalives_idle', 'keepalives_interval'],
      ...['sslcompression', 'sslsni'],
    ].map((name) => [name, 'any' as const]),
  ),
};

const IN_FRONT =
  'write it before the question mark: postgres://user:password@host:port/database, a folder with %2F for each slash';
const ONLY_PASSWORDS = 'use a password';
const WITHOUT = 'leave it out';

/** Parameters of libpq that would change something, and what to do instead. */
const REFUSED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      ...['host', 'hostaddr', 'port', 'user', 'password', 'dbname'],
      ...['passfile', 'service', 'servicefile'],
    ].map((name) => [name, IN_FRONT]),
  ),
  ...Object.fromEntries(
    ['sslcert', 'sslkey', 'sslpassword', 'sslcertmode'].map((name) => [name, ONLY_PASSWORDS]),
  ),
  channel_binding: 'use sslmode=verify-full, which checks the server',
  requiressl: 'use sslmode=require',
  ...Object.fromEntries(
    [
      ...['gssencmode', 'load_balance_hosts', 'max_protocol_version', 'min_protocol_version'],
      ...['replication', 'require_auth', 'requirepeer', 'scram_client_key', 'scram_server_key'],
      ...['ssl_max_protocol_version', 'ssl_min_protocol_version'],
      ...['sslcrl', 'sslcrldir', 'sslkeylogfile'],
    ].map((name) => [name, WITHOUT]),
  ),
};

const isWithoutEffect = (name: string, value: string): boolean => {
  const values = WITHOUT_EFFECT[name];
  return values === 'any' || values?.includes(value) === true;
};

/** Why the address cannot be used; null if it can. Only values that are no secret are in the text. */
export function refusalOf(url: string): string | null {
  for (const [name, value] of new URL(url).searchParams) {
    const instead = REFUSED[name];
    if (instead === undefined || isWithoutEffect(name, value)) continue;
    const shown = Object.hasOwn(WITHOUT_EFFECT, name) ? `${name}=${value}` : name;
    return `the parameter ${shown} is not supported: ${instead}`;
  }
  return null;
}

export function leaveOutWithoutEffect({ searchParams }: URL): void {
  for (const [name, value] of [...searchParams])
    if (isWithoutEffect(name, value)) searchParams.delete(name);
}

/** `prefer` and `allow` count as `require`: otherwise the network would decide whether there is TLS. */
const TLS_MODES = [
  ...['disable', 'false', '0', 'require', 'true', '1', 'prefer', 'allow', 'no-verify'],
  ...['verify-ca', 'verify-full'],
];

/** Null: the address says nothing of TLS. */
export const tlsModeOf = ({ searchParams }: URL): string | null =>
  searchParams.get('sslmode') || searchParams.get('ssl') || null;

export function tlsRefusalOf(url: string): string | null {
  const parsed = new URL(url);
  const mode = tlsModeOf(parsed);
  if (mode === null || TLS_MODES.includes(mode)) return null;
  const name = parsed.searchParams.get('sslmode') ? 'sslmode' : 'ssl';
  return `${name}=${mode} is not supported: use sslmode=require, or sslmode=disable if the network is trusted`;
}
