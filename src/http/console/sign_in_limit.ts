/**
 * Bounds attempts to sign in that fail: from one address, and from all together. A key cannot be guessed; this keeps strangers from using the
 * database, and makes their attempts visible in the log. Strangers who use up the attempts of all do not keep operators out who signed in
 * before from the same address.
 *
 * Of IPv6, the first 64 bits are one address: the rest is the visitor's own choice.
 */
import { isIP, isIPv4, isIPv6 } from 'node:net';

const WINDOW_MS = 60_000;
const FROM_ONE = 10;
const FROM_ALL = 100;
/** Addresses that are remembered because somebody signed in from there. */
const KNOWN = 100;

export type SignInLimit = {
  /** Counts an attempt. Null: it may be made; otherwise the seconds to wait. */
  wait_s(address: string): number | null;
  /** One succeeded. */
  forget(address: string): void;
};

export function createSignInLimit(now_ms: () => number = () => performance.now()): SignInLimit {
  /** The newest last. There are never more than FROM_ALL of strangers. */
  let attempts: { address: string; at_ms: number }[] = [];
  /** The newest last. */
  const known = new Set<string>();
  return {
    wait_s(from) {
      const address = networkOf(from);
      const now = now_ms();
      attempts = attempts.filter(({ at_ms }) => at_ms > now - WINDOW_MS);
      const own = attempts.filter((attempt) => attempt.address === address);
      const all = known.has(address) ? [] : attempts.filter((each) => !known.has(each.address));
      const full = own.length >= FROM_ONE ? own : all.length >= FROM_ALL ? all : null;
      if (full === null) {
        attempts.push({ address, at_ms: now });
        return null;
      }
      return Math.ceil((full[0]!.at_ms + WINDOW_MS - now) / 1000);
    },
    forget(from) {
      const address = networkOf(from);
      known.delete(address);
      known.add(address);
      if (known.size > KNOWN) known.delete(known.values().next().value!);
      attempts = attempts.filter((attempt) => attempt.address !== address);
    },
  };
}

/**
 * Behind a router, the last address of X-Forwarded-For is the one that the router saw. Some routers add the visitor's port, which
 * is another one for each connection. The peer's address, where that is no address.
 */
export function routedAddress(forwarded: string | undefined, peer: string): string {
  const last = (forwarded ?? '').split(',').at(-1)!.trim().slice(0, 64);
  const found = /^\[(.*)\](?::\d*)?$/.exec(last) ?? /^([^:]*):\d*$/.exec(last);
  const address = found?.[1] ?? last;
  return isIP(address) === 0 ? peer : address;
}

function networkOf(address: string): string {
  const text = address.replace(/^::ffff:(?=.*\.)/i, '').replace(/%.*$/, '');
  if (isIPv4(text) || !isIPv6(text)) return text;
  // As a host of a URL it has its shortest spelling, with groups of hexadecimal digits alone.
  const [before = '', after] = new URL(`http://[${text}]`).hostname.slice(1, -1).split('::');
  const [head, tail] = [before, after ?? ''].map((side) => side.split(':').filter(Boolean));
  const zeros = Array(8 - head!.length - tail!.length).fill('0');
  return [...head!, ...zeros, ...tail!].slice(0, 4).join(':');
}
