/** Measures as people read them: three figures and a unit; a dash where there is none. */

const NONE = '–';

const figures = (value: number) => String(Number(value.toPrecision(3)));

export function durationText(microseconds: number | null | undefined): string {
  if (microseconds === null || microseconds === undefined) return NONE;
  if (microseconds < 1_000_000) return `${figures(microseconds / 1_000)} ms`;
  const seconds = microseconds / 1_000_000;
  if (seconds < 120) return `${figures(seconds)} s`;
  if (seconds < 7_200) return `${figures(seconds / 60)} min`;
  return seconds < 172_800 ? `${figures(seconds / 3_600)} h` : `${figures(seconds / 86_400)} d`;
}

export function bytesText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return NONE;
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${figures(bytes / 1024)} KiB`;
  if (bytes < 1024 ** 3) return `${figures(bytes / 1024 ** 2)} MiB`;
  return `${figures(bytes / 1024 ** 3)} GiB`;
}
