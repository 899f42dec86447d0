/**
 * Sees from outside which submissions run: each program's arguments begin with a token of its own, and the host's
 * process table shows the arguments of what runs in a box. One token in two boxes at once is a submission that runs
 * twice at once. The pid namespace distinguishes boxes. A look at the whole table takes a while, so what it found
 * twice is looked at again: both must still be there when both have been seen.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const LOOK_MS = 40;

export type Watch = { stop(): { looks: number; seen: number; twice: string[] } };

export function watchRuns(): Watch {
  let looks = 0;
  const seen = new Set<string>();
  const twice = new Set<string>();
  const timer = setInterval(() => {
    looks += 1;
    const found = new Map<string, Running[]>();
    for (const one of running()) {
      seen.add(one.token);
      found.set(one.token, [...(found.get(one.token) ?? []), one]);
    }
    for (const [token, all] of found) {
      if (boxesOf(all).length < 2) continue;
      const boxes = boxesOf(all.filter(({ pid }) => runs(pid)));
      if (boxes.length > 1) twice.add(`${token} in ${boxes.join(' and ')}`);
    }
  }, LOOK_MS);
  return {
    stop() {
      clearInterval(timer);
      return { looks, seen: seen.size, twice: [...twice] };
    },
  };
}

type Running = { token: string; box: string; pid: string };

const boxesOf = (all: readonly Running[]) => [...new Set(all.map(({ box }) => box))];

const TOKEN = /\0(token-[0-9a-z-]+)\0/;

function* running(): Generator<Running> {
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const [, token] = TOKEN.exec(readFileSync(`/proc/${pid}/cmdline`, 'latin1')) ?? [];
      if (token === undefined || !runs(pid)) continue;
      yield { token, box: readlinkSync(`/proc/${pid}/ns/pid`), pid };
    } catch {
      // It has ended by now.
    }
  }
}

const KILL = 1n << 8n;

/** A process that was killed runs no more: whether it waits to be reaped, or to notice. */
function runs(pid: string): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    if (/^State:\s+[ZX]/m.test(status)) return false;
    const pending = [...status.matchAll(/^(?:SigPnd|ShdPnd):\s+([0-9a-f]+)$/gm)];
    return pending.every(([, bits]) => (BigInt(`0x${bits}`) & KILL) === 0n);
  } catch {
    return false;
  }
}
