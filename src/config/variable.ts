/** One variable of the environment, and the two functions that make one. */
import type * as v from 'valibot';
import { text } from './parsers.ts';

export type Variable<T> = {
  readonly name: string;
  readonly parse: v.GenericSchema<string, T>;
  /** as text of the environment; null where there is none */
  readonly default: string | null;
  readonly unit: string;
  readonly reason: string;
  /** printed as "(set)", never as its value */
  readonly secret: boolean;
};

type Row = { default: string; unit: string; reason: string; secret?: boolean };

/** A variable with a default. */
export const row = <T>(name: string, parse: v.GenericSchema<string, T>, row: Row): Variable<T> => ({
  name,
  parse,
  secret: false,
  ...row,
});

/** A variable without a default: its value is null where it is not set. */
export const optional = <T>(
  name: string,
  parse: v.GenericSchema<string, T>,
  row: Omit<Row, 'default'>,
): Variable<T | null> => ({ name, parse, secret: false, default: null, ...row });

export const path = text(/^[^\0]+$/, 'must be a path');
export const KiB = 2 ** 10;
export const MiB = 2 ** 20;
export const GiB = 2 ** 30;
export const SECOND = 1e3;
export const MINUTE = 6e4;
export const HOUR = 36e5;
export const DAY = 864e5;
