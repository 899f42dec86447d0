/** Reads the files that a command is given: the bytes of any, and the text of one that decides what is believed. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { BadRemovals } from '../domain/removals.ts';
import { BadJson } from '../domain/strict_json.ts';
import { BadPolicy } from '../proof/policy.ts';
import { NoReceipt } from '../proof/receipt.ts';
import { type Context, UsageError } from './command.ts';

let stdin_is_read = false;

/** `-` is standard input. It is not opened by a name, because a socket cannot be. */
export async function readBytes(path: string): Promise<Buffer> {
  if (path !== '-') return readFile(path);
  if (stdin_is_read) throw new UsageError('only one file can be -, which is standard input');
  stdin_is_read = true;
  return buffer(process.stdin);
}

/** `shown`: how an error names the file. Every error is a UsageError. */
export async function readFileOf(path: string, shown: string): Promise<Buffer> {
  return readBytes(path).catch((error: Error) => {
    throw new UsageError(`${shown}: ${error.message}`);
  });
}

/** The text must be UTF-8: a reader that replaced other bytes would believe something else than another reader. */
export async function readText<T>(
  path: string,
  shown: string,
  parse: (text: string) => T,
): Promise<T> {
  const bytes = await readFileOf(path, shown);
  try {
    return parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new UsageError(`${shown}: ${kindOf(error)}${(error as Error).message}`);
  }
}

function kindOf(error: unknown): string {
  if (error instanceof NoReceipt) return 'not a receipt: ';
  if (error instanceof BadPolicy) return 'not a policy: ';
  if (error instanceof BadRemovals) return 'not a file of removals: ';
  return error instanceof BadJson ? 'not JSON that can be read: ' : '';
}

/** Null if the option is not given. */
export async function readOption<T>(
  context: Context,
  name: string,
  parse: (text: string) => T,
): Promise<T | null> {
  const path = context.options[name];
  return typeof path === 'string' ? readText(path, `--${name} ${path}`, parse) : null;
}
