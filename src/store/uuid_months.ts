/** Months and the ids of their submissions: partitions are named after months, and a UUIDv7 begins with its time. */

import { usOf } from '../domain/clocks.ts';

export type Month = {
  /** The lowest id, and the lowest of the next month. */
  readonly low: string;
  readonly high: string;
  readonly ends: Date;
};

/** Of a partition's name, such as events_2026_11; null for a partition that is no month. */
export function monthOf(partition: string): Month | null {
  const [, year, month] = /_(\d{4})_(0[1-9]|1[0-2])$/.exec(partition) ?? [];
  if (!year) return null;
  const begins = Date.UTC(Number(year), Number(month) - 1);
  const ends = new Date(Date.UTC(Number(year), Number(month)));
  return { low: floorOf(begins), high: floorOf(ends.getTime()), ends };
}

/** The end of the month in microseconds since 2000: no stream of it began later. Infinity for a partition that is no month. */
export function usOfMonth(partition: string): number {
  const month = monthOf(partition);
  return month ? usOf(month.ends) : Number.POSITIVE_INFINITY;
}

export const isOfMonth = (id: string, { low, high }: Month): boolean => id >= low && id < high;

/**
 * Whether retention can have detached this partition of events. There are some thousand such names. Of others, which anybody can
 * make up, there is no end.
 */
export const canBeDetached = (partition: string): boolean =>
  /^events_(19[7-9]|20\d|21\d)\d_/.test(partition) &&
  partition.length === 14 &&
  monthOf(partition) !== null;

/** The partition of events that this id, a UUIDv7, belongs to. */
export function partitionOf(id: Buffer): string {
  const [year, month] = new Date(id.readUIntBE(0, 6)).toISOString().split('-');
  return `events_${year}_${month}`;
}

/** The lowest UUIDv7 of an instant. */
export function floorOf(at_ms: number): string {
  const hex = at_ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
