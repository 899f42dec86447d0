/** What a command is, and what it is given. */
import type { ParseArgsOptionsConfig } from 'node:util';
import type { DatabaseAddress } from '../config/database_tls.ts';
import type { Config, Role } from '../config.ts';
import type { Db } from '../db.ts';

export type Command = {
  /** After the name, as shown by --help: `ID [--grace 24h]`. */
  readonly usage: string;
  readonly summary: string;
  readonly options?: ParseArgsOptionsConfig;
  /** How many words without dashes it takes. */
  readonly words?: readonly [min: number, max: number];
  /** The exit status. */
  run(context: Context): Promise<number>;
};

export type Context = {
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** Asked for with --json: stdout is for a program. */
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly config: Config;
  /** To stdout: an answer. Anything but text is printed as JSON. */
  answer(value: unknown): void;
  /** To stderr: whatever else a person should know. */
  say(line: string): void;
  /** DATABASE_URL's, else the embedded one, started for the call when it is not running. */
  database(role?: Role): Promise<Db>;
  address(role?: Role): Promise<DatabaseAddress>;
};

/** The caller's mistake: printed as one line, exit status 2. */
export class UsageError extends Error {}

/** Something is not well, or was refused: printed as one line, exit status 1. */
export class CommandFailed extends Error {}

export function requireOption(context: Context, name: string): string {
  const value = context.options[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} is missing`);
  return value;
}

/** Rows as columns of text, headings first. */
export function table(rows: readonly Readonly<Record<string, unknown>>[]): string {
  const names = Object.keys(rows[0] ?? {});
  const cells = [names, ...rows.map((row) => names.map((name) => shown(row[name])))];
  const widths = names.map((_, column) => Math.max(...cells.map((line) => line[column]!.length)));
  return cells
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (value instanceof Date) return value.toISOString().replace(/\.\d+Z$/, 'Z');
  return String(value);
}
