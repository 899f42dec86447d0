/** What runs on this machine, as the tests of the launcher need to see it. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf } from '../support/processes.ts';

const read = (path: string) => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
};

export const pids = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
export const commandOf = (pid: number) => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
export const running = (command: string) => pids().filter((pid) => commandOf(pid) === command);
/** `T`: it is stopped. Empty: there is no such process. */
export const stateOf = (pid: number) => read(`/proc/${pid}/stat`).split(') ')[1]?.[0] ?? '';
export const isAlive = (pid: number) => !['', 'Z'].includes(stateOf(pid));

/** The signals that wait for the process, a bit for each. */
export const pendingOf = (pid: number) =>
  BigInt(`0x${/^ShdPnd:\t(\w+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? '0'}`);

/** Polls, because no event reports the end of another process's child; false: not within `ms`. */
export async function within(ms: number, holds: () => boolean): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await sleep(5)) if (holds()) return true;
  return holds();
}

/** Ends slots, and waits until the launcher has reaped them: a run that is sent to a slot on its way out is lost with it. */
export async function killSlots(launcher: number, slots = childrenOf(launcher)): Promise<void> {
  for (const slot of slots) {
    try {
      process.kill(slot, 'SIGKILL');
    } catch {
      // An orphan that the launcher had got, and that has ended.
    }
  }
  const reaped = () => childrenOf(launcher).every((child) => !slots.includes(child));
  if (!(await within(60_000, reaped))) throw new Error('the launcher did not reap its slots');
}
