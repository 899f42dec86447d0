/** Names of hosts, before anything is resolved. The name is in the form of the URL parser: lower case, no final dot. */

/** Letters, digits, hyphens and underscores, in labels and a total length that the DNS allows. */
export function isName(hostname: string): boolean {
  return (
    hostname.length <= 253 && hostname.split('.').every((label) => /^[a-z0-9_-]{1,63}$/.test(label))
  );
}

/** RFC 6761 defines these names as loopback, so no resolver needs to be asked. */
export function isLocalName(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost');
}
