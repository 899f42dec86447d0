/**
 * The addresses to which no webhook may be sent, as data: the IANA special-purpose registries of
 * IPv4 and IPv6, and other ways to the same machines (IPv6 forms that carry an IPv4 address, and the
 * fixed addresses at which a cloud serves its own guests).
 *
 * IPv6 is blocked by default: only 2000::/3 is assigned for global unicast, and the special ranges
 * within it are listed. IPv4 is allowed by default, because nearly all of it is assigned.
 */
import { isIPv4, isIPv6 } from 'node:net';

export type Address = { family: 4 | 6; bits: bigint };

type Range = { family: 4 | 6; start: bigint; length: number; name: string };

const SPECIAL: readonly (readonly [cidr: string, name: string])[] = [
  ['0.0.0.0/8', 'this network'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'carrier-grade NAT'],
  ['127.0.0.0/8', 'loopback'],
  // One cloud serves its guests at this address, which the registry lists as an ordinary one.
  ['168.63.129.16/32', 'cloud platform'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'protocol assignments'],
  ['192.0.2.0/24', 'documentation'],
  ['192.31.196.0/24', 'AS112'],
  ['192.52.193.0/24', 'AMT'],
  ['192.88.99.0/24', '6to4 relay'],
  ['192.168.0.0/16', 'private'],
  ['192.175.48.0/24', 'AS112'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  ['::ffff:0:0/96', 'IPv4-mapped'],
  ['::ffff:0:0:0/96', 'IPv4-translated'],
  ['::/96', 'IPv4-compatible'],
  ['64:ff9b::/96', 'NAT64'],
  ['64:ff9b:1::/48', 'NAT64'],
  ['100::/64', 'discard'],
  ['2001::/32', 'Teredo'],
  ['2001:2::/48', 'benchmarking'],
  ['2001:10::/28', 'ORCHID'],
  ['2001:20::/28', 'ORCHID'],
  ['2001::/23', 'protocol assignments'],
  ['2001:db8::/32', 'documentation'],
  ['2002::/16', '6to4'],
  ['2620:4f:8000::/48', 'AS112'],
  ['3fff::/20', 'documentation'],
  ['fc00::/7', 'unique local'],
  ['fe80::/10', 'link-local'],
  ['fec0::/10', 'site-local'],
  ['ff00::/8', 'multicast'],
];

const RANGES: readonly Range[] = SPECIAL.map(([cidr, name]) => rangeOf(cidr, name));
const GLOBAL_UNICAST = rangeOf('2000::/3', 'global unicast');
const LOOPBACK = RANGES.filter(({ name }) => name === 'loopback');

/** The name of the special range that contains the address; null for an ordinary address. */
export function specialRange(address: Address): string | null {
  const range = RANGES.find((candidate) => contains(candidate, address));
  if (range !== undefined) return range.name;
  if (address.family === 4) return null;
  if (!contains(GLOBAL_UNICAST, address)) return 'not global unicast';
  return isIsatap(address) ? 'ISATAP' : null;
}

export function isLoopback(address: Address): boolean {
  return LOOPBACK.some((range) => contains(range, address));
}

/** Accepts canonical spellings only; null for all others, including one with a zone id (`fe80::1%eth0`). */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, bits: bitsOfIPv4(text) };
  if (isIPv6(text) && !text.includes('%')) return { family: 6, bits: bitsOfIPv6(text) };
  return null;
}

function bitsOfIPv4(text: string): bigint {
  return text.split('.').reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);
}

function bitsOfIPv6(text: string): bigint {
  const [head, tail] = text.split('::').map(groupsOf) as [bigint[], bigint[] | undefined];
  const zeros = tail === undefined ? [] : Array<bigint>(8 - head.length - tail.length).fill(0n);
  return [...head, ...zeros, ...(tail ?? [])].reduce((bits, group) => (bits << 16n) | group, 0n);
}

/** The 16-bit groups on one side of `::`; a dotted quad at the end gives two. */
function groupsOf(side: string): bigint[] {
  if (side === '') return [];
  return side.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)];
    const bits = bitsOfIPv4(group);
    return [bits >> 16n, bits & 0xffffn];
  });
}

/** An interface identifier with 0000:5efe or 0200:5efe carries an IPv4 address (RFC 5214), with any prefix. */
function isIsatap({ bits }: Address): boolean {
  return ((bits >> 32n) & 0xfdff_ffffn) === 0x0000_5efen;
}

function contains({ family, start, length }: Range, address: Address): boolean {
  const rest = BigInt((family === 4 ? 32 : 128) - length);
  return family === address.family && address.bits >> rest === start >> rest;
}

function rangeOf(cidr: string, name: string): Range {
  const [text, length] = cidr.split('/');
  const address = parseAddress(text ?? '');
  if (address === null) throw new Error(`not a range: ${cidr}`);
  return { family: address.family, start: address.bits, length: Number(length), name };
}
