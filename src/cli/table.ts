import { printable } from '../domain/printable.ts';

/** Prints rows as columns of text, with a heading line. */
export function table(rows: readonly Readonly<Record<string, unknown>>[]): string {
  const names = Object.keys(rows[0] ?? {});
  return columns([names, ...rows.map((row) => names.map((name) => cellText(row[name])))]);
}

/** Pads each column to its widest cell. */
export function columns(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, at) =>
    Math.max(...lines.map((line) => line[at]!.length)),
  );
  const padded = lines.map((line) => line.map((cell, at) => cell.padEnd(widths[at]!)).join('  '));
  return padded.map((line) => line.trimEnd()).join('\n');
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (value instanceof Date) return value.toISOString().replace(/\.\d+Z$/, 'Z');
  return printable(String(value));
}
