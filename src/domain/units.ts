/** Spells sizes and times, for people and for the configuration: 268435456 is "256MiB". */

const SIZES = [
  [1024 ** 3, 'GiB'],
  [1024 ** 2, 'MiB'],
  [1024, 'KiB'],
] as const;

/** In the largest unit of which it is a whole number. `gap` stands between number and unit. */
export function spellBytes(size: number, gap = ''): string {
  for (const [unit, name] of SIZES) {
    if (size >= unit && size % unit === 0) return `${size / unit}${gap}${name}`;
  }
  return gap === '' ? String(size) : `${size}${gap}bytes`;
}

export function spellTime(ms: number, gap = ''): string {
  return ms % 1000 === 0 ? `${ms / 1000}${gap}s` : `${ms}${gap}ms`;
}
