/** What the address of a PostgreSQL says. The two clients read it differently, and both read less of it than libpq. */

type Peer = { host: string[]; port: number[]; path?: string };

/** The folder of a local socket is percent-encoded where the host would be. */
export const isSocketFolder = (hostname: string): boolean => /^%2f/i.test(hostname);

/**
 * Where postgres.js is to connect, if it does not see that itself: it does not decode a folder, and takes the first colon of an
 * IPv6 address for that before the port.
 */
export function peerOf(url: string): Partial<Peer> {
  const { hostname, port } = new URL(url);
  const at = { port: [Number(port || 5432)] };
  if (isSocketFolder(hostname)) {
    const path = `${decodeURIComponent(hostname)}/.s.PGSQL.${at.port}`;
    return { ...at, host: ['localhost'], path };
  }
  return hostname.startsWith('[') ? { ...at, host: [hostname.slice(1, -1)] } : {};
}
