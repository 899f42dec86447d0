/**
 * What a command declares, and what it gets to work with.
 *
 * A command is one file in commands/ and one line in command_table.ts. command_line.ts parses the arguments, checks them
 * and prints the help, all from the declaration.
 */
import type { DatabaseAddress } from '../config/database_tls.ts';
import type { Config, Role } from '../config.ts';
import type { Db } from '../db.ts';
import type { Creates } from '../local/embedded.ts';

export type Command = {
  /** One sentence for `--help`. */
  readonly summary: string;
  /** The arguments without dashes, in order. */
  readonly words?: readonly Word[];
  /** By name, without the dashes. */
  readonly options?: Readonly<Record<string, Option>>;
  /** A complete command line, as typed after `./runledger`. */
  readonly example: string;
  /** It runs until it is stopped, also when nobody reads its output or the disk below that is full. */
  readonly service?: boolean;
  /** Whether it makes the data of the embedded PostgreSQL where there are none; `never` if absent. */
  readonly creates?: Creates;
  /** Default: loadConfig, which refuses an environment with mistakes. */
  readonly config?: () => Config;
  /** Its exit statuses and their meanings, for `--help`, where they say more than whether it worked. */
  readonly statuses?: readonly (readonly [status: string, meaning: string])[];
  /** The exit status where it could not do its work, or its output was lost; 1 if absent. */
  readonly failed?: number;
  /** Returns the exit status. */
  run(context: Context): Promise<number>;
};

/** Only the last ones may be optional. */
export type Word = { readonly name: string; readonly help: string; readonly optional?: boolean };

export type Option = {
  /** The placeholder for its value in the help (`NAME`); absent for a switch. */
  readonly value?: string;
  readonly default?: string;
  readonly required?: boolean;
  readonly help: string;
};

/** For a command whose answer a program may read. */
export const JSON_OPTION: Option = { help: 'print JSON, for programs' };

export type Context = {
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** True with --json. */
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly config: Config;
  /** Prints an answer to stdout. Anything but text is printed as JSON. */
  answer(value: unknown): void;
  /** Prints a line for a person to stderr. */
  say(line: string): void;
  /**
   * Connects to DATABASE_URL, or else to the embedded PostgreSQL, which is started for the call if necessary (and made, if the
   * command `creates` it). `unpinned`: with the settings of the role and the server. Tables of another version are refused, but not with `any_schema`.
   * `unseen`: whatever is in it, for who asks the server alone.
   */
  database(options?: {
    role?: Role;
    unpinned?: boolean;
    any_schema?: boolean;
    unseen?: boolean;
  }): Promise<Db>;
  address(role?: Role): Promise<DatabaseAddress>;
};

/** The status of a command about a program that says nothing about the program; few programs end with it. */
export const NO_RESULT = 125;

/** The caller made a mistake: printed as one line, exit status 2. */
export class UsageError extends Error {}

/** The command could not do its work, or found a problem: printed as one line, exit status 1, or that which it declares. */
export class CommandFailed extends Error {}

/** The status that a shell gives to a program that Ctrl-C ended. */
export const INTERRUPTED = 130;

/** For `--help`. */
export const INTERRUPTED_STATUS = [
  String(INTERRUPTED),
  'Ctrl-C: a submission that was accepted goes on, and stderr names it',
] as const;

/** Ctrl-C ended the command, and there is something to say: printed as one line, exit status INTERRUPTED. */
export class Interrupted extends CommandFailed {}

/** The value of an option that is required or has a default. */
export function optionText(context: Context, name: string): string {
  const value = context.options[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} is missing`);
  return value;
}

/** The value of such an option that is a number from 1 to 999,999. */
export function wholeNumber(context: Context, name: string): number {
  const word = optionText(context, name);
  if (!/^[1-9]\d{0,5}$/.test(word)) throw new UsageError(`--${name} must be a number from 1`);
  return Number(word);
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
export const isUuid = (word: string): boolean => UUID.test(word);
