/** What a language has to know of a box: where things are in it, and what is asked of it. */

export const WORK_FOLDER = '/box';
/** Where a box sees artefacts of the store: the program, or what its compiler needs. */
export const LOAD_FOLDER = '/load';
export const SECOND_LOAD_FOLDER = '/load2';

export type Environment = Readonly<Record<string, string>>;
export type Command = { argv: readonly string[]; env: Environment };
export type Load = { key: string; at: string };

/** A command with what it finds in its box. */
export type Step = Command & {
  /** Written into the work folder. */
  files: readonly { path: string; bytes: Uint8Array }[];
  load: readonly Load[];
};

/** Built from nothing: no variable of the host is handed on. */
export const BASE_ENVIRONMENT: Environment = {
  PATH: '/usr/bin:/bin',
  HOME: WORK_FOLDER,
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
};

/** A program that stays: its standard input and output, until it ends. */
export type StandingBox = {
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  write(bytes: Uint8Array): unknown;
  kill(): void;
  /** The CPU time of its control group so far; null when it has ended. */
  usage(): Promise<{ cpu_us: number } | null>;
  /** Settles when the program has ended, however it did; rejects when the launcher was lost. */
  readonly ended: Promise<{ cpu_us: number }>;
  /** The last of what it wrote on standard error. */
  readonly stderr: Uint8Array;
};
