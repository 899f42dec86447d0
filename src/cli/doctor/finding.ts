import { faultOf } from '../../fault.ts';
import type { Context } from '../command.ts';

export type Finding = {
  check: string;
  state: 'ok' | 'warn' | 'fail';
  found: string;
  /** What to do about it; null when nothing is wrong. */
  remedy: string | null;
};

/** Returns its findings. An error that it throws counts as a failed check. */
export type Check = { name: string; look(context: Context): Promise<Finding[]> };

export const ok = (check: string, found: string): Finding => ({
  check,
  state: 'ok',
  found,
  remedy: null,
});
export const warn = (check: string, found: string, remedy: string): Finding => ({
  ...{ check, found, remedy },
  state: 'warn',
});
export const fail = (check: string, found: string, remedy: string): Finding => ({
  ...{ check, found, remedy },
  state: 'fail',
});

/** A check that threw. `known`: a remedy that is known. */
export const failed = (check: string, error: unknown, known: string | null = null): Finding =>
  fail(
    check,
    (error as Error).message.split('\n')[0]!,
    known ?? faultOf(error)?.remedy ?? 'see the message',
  );
