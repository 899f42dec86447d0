/**
 * Watches the memory that this machine has left. The kernel charges most of a program's memory to its group, but not all:
 * file locks and socket buffers, for example, count towards no limit of memory. Descriptors and processes bound them for
 * each program, and this bounds them for the machine: a worker that is short of memory starts nothing new until there is
 * more.
 */
import { readFileSync } from 'node:fs';

const MiB = 2 ** 20;
/** A worker is short of memory below this part of the machine's, or below the fixed amount if that is less. */
const LEAST_PART = 0.05;
const LEAST_BYTES = 256 * MiB;
/** A reading is good for this long; this often a worker that is short of memory looks again. */
const GOOD_MS = 100;
const LOOK_AGAIN_MS = 500;

export type FreeMemory = {
  /** what programs could still get, with page cache that the kernel would drop for them */
  available_bytes: number;
  /** below this a worker starts nothing */
  least_bytes: number;
};

/** Null where the kernel does not say. */
export function freeMemory(meminfo: string = readMeminfo()): FreeMemory | null {
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(meminfo)?.[1] ?? Number.NaN) * 1024;
  const available_bytes = bytes('MemAvailable');
  const least_bytes = Math.min(bytes('MemTotal') * LEAST_PART, LEAST_BYTES);
  return Number.isNaN(available_bytes + least_bytes) ? null : { available_bytes, least_bytes };
}

export const isShort = (memory: FreeMemory | null): boolean =>
  memory !== null && memory.available_bytes < memory.least_bytes;

export const inMiB = (bytes: number): string => `${Math.floor(bytes / MiB)} MiB`;

export type MemoryWatch = {
  /** A new run may start. */
  enough(): boolean;
  stop(): void;
};

export function watchMemory(given: {
  look?: () => FreeMemory | null;
  onShort: (memory: FreeMemory) => void;
  onEnough: (memory: FreeMemory | null) => void;
}): MemoryWatch {
  const { look = freeMemory, onShort, onEnough } = given;
  let again: NodeJS.Timeout | null = null;
  let looked_ms = Number.NEGATIVE_INFINITY;

  function lookAgain(): void {
    const memory = look();
    if (isShort(memory)) return;
    stop();
    onEnough(memory);
  }

  function stop(): void {
    if (again !== null) clearInterval(again);
    again = null;
  }

  return {
    enough() {
      if (again !== null) return false;
      if (performance.now() - looked_ms < GOOD_MS) return true;
      const memory = look();
      looked_ms = performance.now();
      if (memory === null || !isShort(memory)) return true;
      again = setInterval(lookAgain, LOOK_AGAIN_MS);
      onShort(memory);
      return false;
    },
    stop,
  };
}

function readMeminfo(): string {
  try {
    return readFileSync('/proc/meminfo', 'latin1');
  } catch {
    return '';
  }
}
