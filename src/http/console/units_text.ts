/** Measures as the console shows them: three figures and a unit; a dash where there is none. */

const NONE = '–';

const figures = (value: number) => String(Number(value.toPrecision(3)));

export function durationText(microseconds: number | null | undefined): string {
  if (microseconds === null || microseconds === undefined) return NONE;
  if (microseconds < 1_000_000) return `${figures(microseconds / 1_000)} ms`;
  if (microseconds < 120_000_000) return `${figures(microseconds / 1_000_000)} s`;
  return `${figures(microseconds / 60_000_000)} min`;
}

export function bytesText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return NONE;
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${figures(bytes / 1024)} KiB`;
  return `${figures(bytes / 1024 ** 2)} MiB`;
}
