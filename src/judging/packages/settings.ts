/**
 * Reads the YAML files of a package. Every scalar stays the text that the file has, so that `1e-6` as an argument is not
 * rewritten by way of a number; the reader of a key says what it must be. `null` and `~` alone are as if nothing stood there.
 * Each problem names the file and the key.
 */
import { defineScalarTag, FAILSAFE_SCHEMA, load, NOT_RESOLVED, realMapTag } from 'js-yaml';
import { type Constants, NO_CONSTANTS, replaceConstants } from './constants.ts';
import type { Entry } from './entry_source.ts';
import type { PackageBounds } from './package_bounds.ts';
import { PackageProblem } from './package_problem.ts';

type Value = string | readonly Value[] | ReadonlyMap<Value, Value>;

const nothing = defineScalarTag('tag:yaml.org,2002:null', {
  implicit: true,
  identify: () => false,
  resolve: (text) => (/^(null|Null|NULL|~|)$/.test(text) ? '' : NOT_RESOLVED),
});
const SCHEMA = FAILSAFE_SCHEMA.withTags(realMapTag, nothing);
const DEPTH = 16;
const ALIASES = 50;

/** The YAML files of one package. */
export class YamlReader {
  readonly #bounds: PackageBounds;
  #left: number;

  constructor(bounds: PackageBounds) {
    this.#bounds = bounds;
    this.#left = bounds.all_yaml_bytes;
  }

  /** An absent file is an empty map. */
  async read(
    entry: Entry | undefined,
    absent_path = '',
    constants: Constants = NO_CONSTANTS,
  ): Promise<Settings> {
    if (entry === undefined) return new Settings(absent_path, '', new Map());
    this.#take(entry.path, entry.size);
    const replaced = await withConstants(entry, constants, this.#bounds.yaml_bytes);
    // A short file can stand for a long one, once its constants have their values.
    this.#take(entry.path, Math.max(0, replaced.size - entry.size));
    return parse(entry.path, await readText(replaced, this.#bounds.yaml_bytes));
  }

  #take(path: string, bytes: number): void {
    this.#left -= bytes;
    if (this.#left >= 0) return;
    throw new PackageProblem(
      path,
      `with it the YAML files have more than ${this.#bounds.all_yaml_bytes} bytes`,
    );
  }
}

/** The file as it is once its constants have their values. */
export async function withConstants(
  entry: Entry,
  constants: Constants,
  most_bytes: number,
): Promise<Entry> {
  if (constants.size === 0) return entry;
  const read = await readWhole(entry, most_bytes);
  const bytes = replaceConstants(read, constants, most_bytes);
  if (bytes === null) {
    throw new PackageProblem(entry.path, `with its constants it has more than ${most_bytes} bytes`);
  }
  async function* open() {
    yield bytes!;
  }
  return read.length === 0 ? entry : { path: entry.path, size: bytes.length, open };
}

export async function readText(entry: Entry, most_bytes: number): Promise<string> {
  const bytes = await readWhole(entry, most_bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new PackageProblem(entry.path, 'it is not UTF-8');
  }
}

export async function readWhole(entry: Entry, most_bytes: number): Promise<Buffer> {
  if (entry.size > most_bytes)
    throw new PackageProblem(entry.path, `it has more than ${most_bytes} bytes`);
  const chunks: Uint8Array[] = [];
  for await (const chunk of entry.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function parse(path: string, text: string): Settings {
  const has_content = text.split('\n').some((line) => !/^\s*(#|$)/.test(line));
  if (!has_content) return new Settings(path, '', new Map());
  let value: Value;
  try {
    value = load(text, { schema: SCHEMA, maxDepth: DEPTH, maxAliases: ALIASES }) as Value;
  } catch (error) {
    const { reason, mark } = error as { reason?: string; mark?: { line: number } };
    if (reason === undefined) throw error;
    throw new PackageProblem(
      path,
      `${mark === undefined ? '' : `line ${mark.line + 1}: `}${reason}`,
    );
  }
  return settingsOf(path, '', value);
}

function settingsOf(path: string, key: string, value: Value): Settings {
  if (!(value instanceof Map))
    throw new PackageProblem(path, `${key === '' ? 'it' : key} must be a map`);
  for (const name of value.keys()) {
    if (typeof name !== 'string') throw new PackageProblem(path, `${key}: a key must be a string`);
  }
  return new Settings(path, key, value as ReadonlyMap<string, Value>);
}

export class Settings {
  readonly path: string;
  /** the key of this map in its file, with a dot at the end; empty for the whole file */
  readonly #prefix: string;
  readonly #values: ReadonlyMap<string, Value>;

  constructor(path: string, key: string, values: ReadonlyMap<string, Value>) {
    this.path = path;
    this.#prefix = key === '' ? '' : `${key}.`;
    this.#values = values;
  }

  problem(key: string, problem: string): PackageProblem {
    return new PackageProblem(this.path, `${this.#prefix}${key}: ${problem}`);
  }

  keys(): string[] {
    return [...this.#values.keys()];
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  isMap(key: string): boolean {
    return this.#values.get(key) instanceof Map;
  }

  isText(key: string): boolean {
    return typeof this.#values.get(key) === 'string';
  }

  /** The format says that an unknown key is an error. */
  allow(...known: readonly string[]): void {
    for (const key of this.keys()) {
      if (!known.includes(key)) throw this.problem(key, 'unknown key');
    }
  }

  reject(key: string, why: string): void {
    if (this.has(key)) throw this.problem(key, why);
  }

  text(key: string): string | null {
    const value = this.#values.get(key);
    if (value === undefined) return null;
    if (typeof value !== 'string') throw this.problem(key, 'must be a string');
    return this.#checked(key, value);
  }

  oneOf<T extends string>(key: string, words: readonly T[]): T | null {
    // Like an absent key: `type:` without anything behind it.
    const text = this.text(key) || null;
    const word = words.find((candidate) => candidate === text);
    if (text !== null && word === undefined)
      throw this.problem(key, `must be one of ${words.join(', ')}`);
    return word ?? null;
  }

  number(key: string, { min, max }: { min: number; max: number }): number | null {
    const text = this.text(key) || null;
    if (text === null) return null;
    const number = toNumber(text);
    if (number === null || number < min || number > max) {
      throw this.problem(key, `must be a number from ${min} to ${max}`);
    }
    return number;
  }

  integer(key: string, range: { min: number; max: number }): number | null {
    const number = this.number(key, range);
    if (number !== null && !Number.isInteger(number)) throw this.problem(key, 'must be an integer');
    return number;
  }

  /** A sequence of strings. */
  strings(key: string): string[] | null {
    const value = this.#values.get(key);
    if (value === undefined || value === '') return null;
    if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) {
      throw this.problem(key, 'must be a sequence of strings');
    }
    return value.map((item) => this.#checked(key, item));
  }

  /** No argument of a program and no text of the database has a NUL or half of a character. */
  #checked(key: string, text: string): string {
    if (text.includes('\0') || !text.isWellFormed())
      throw this.problem(key, 'has a NUL or is no Unicode');
    return text;
  }

  /** Words in one string with spaces between them, or a sequence of strings. */
  words(key: string): string[] | null {
    const text = this.isText(key) ? this.text(key) : null;
    return text ? wordsOf(text) : this.strings(key);
  }

  map(key: string): Settings {
    const value = this.#values.get(key);
    const name = `${this.#prefix}${key}`;
    // `limits:` without anything behind it
    if (value === undefined || value === '') return new Settings(this.path, name, new Map());
    return settingsOf(this.path, name, value);
  }
}

export const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');

/** The format's grammar of numbers: decimal, with or without an exponent. */
export function toNumber(text: string): number | null {
  if (!/^[+-]?([0-9]*\.[0-9]+|[0-9]+\.?)(e[+-]?[0-9]+)?$/i.test(text)) return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
