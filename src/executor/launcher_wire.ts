/**
 * The worker's half of the protocol in `sandbox/wire.h`: frames of length, type, request id and payload,
 * little endian.
 */

import { isUtf8 } from 'node:buffer';
import { FRAME_MAX } from '../domain/launcher_bounds.ts';
import type { RunLimits } from '../domain/limits.ts';
import type { BoxReport, KilledFor } from '../domain/result.ts';

export type BoxRequest = {
  /** the first is an absolute path inside the box */
  argv: readonly string[];
  env: Readonly<Record<string, string>>;
  /** its working directory; /box by default */
  cwd?: string;
  /** written into the work directory before the start */
  files: readonly { path: string; bytes: Uint8Array; mode?: number }[];
  /** empty folders of the work directory, made before the start */
  folders?: readonly string[];
  /** of a run of its own: a regular file, read-only */
  stdin: Uint8Array;
  /** A regular file of the store is standard input, instead of `stdin`. */
  stdin_key?: string;
  limits: RunLimits;
  /** one of the roots that the launcher was started with */
  profile: string;
  /** of the store, mounted read-only: artefacts below /box, at /load or at /load2, and single files in /load2 */
  load?: readonly { key: string; at: string }[];
  /** the files of the work directory to keep when the program ends with 0 */
  save?: { key: string; paths: readonly string[]; max_bytes: number; max_files: number };
  /** the files of the work directory to report when the run ends, however it ends; not beside `save` */
  keep?: {
    /** as those of src/judging/paths.ts; files of an earlier one are kept first */
    patterns: readonly string[];
    max_bytes: number;
    max_files: number;
    /** Files of the first patterns are cut to so many bytes. */
    cut?: { patterns: number; bytes: number };
    /** What a pattern names, and is no regular file, is refused. Else it counts as not there. */
    refuses_others?: boolean;
  };
  /** the account whose warm interpreter may run it */
  zygote?: { account: string };
};

export type RunReport = BoxReport & {
  saved?: { bytes: number; files: number };
  /** why nothing was saved though the program ended well: because of the files it left, not a fault */
  save_refused?: string;
  /** why the store could not take it, whatever the files are: its disk is full, for example */
  save_failed?: string;
  /** It could not because it has no room. */
  store_full?: true;
  /** Only if the request has `keep`: in the order of its patterns, and of the names within each. */
  kept?: { path: string; bytes: Uint8Array }[];
  /** why a file that matches is not among them: the first such file */
  keep_refused?: string;
};

/** What ended one of two runs, and what it says of both. */
export type PairReport = {
  program: RunReport;
  interactor: RunReport;
  /**
   * A program that was ended counts from the decision, and one that ended by itself from the end of its output, if that came
   * shortly before. An interactor counts from the end of its process: run_report.c says why.
   */
  program_ended_first: boolean;
  /** see `renderTranscript` */
  transcript: Uint8Array;
};

/** Bytes of a run's output, or where in it something is. */
export type PerStream<T> = { stdout: T; stderr: T };

/**
 * What a run has written so far, from `from` on, at most so many bytes; nothing before the program has started. Null: the run
 * is over.
 */
export type Peek = (
  from: PerStream<number>,
  most_bytes: number,
) => Promise<PerStream<Buffer> | null>;

export type Usage = { cpu_us: number; memory_bytes: number; memory_peak_bytes: number };

export const FRAME = {
  run: 1,
  cancel: 2,
  input: 3,
  deadline: 4,
  meter: 5,
  pair: 6,
  peek: 7,
  hello: 16,
  report: 17,
  fault: 18,
  output: 19,
  metered: 20,
  opened: 21,
  peeked: 22,
} as const;

const FIELD = {
  argument: 1,
  environment: 2,
  directory: 3,
  file: 4,
  stdin: 5,
  limits: 6,
  profile: 7,
  load: 8,
  save: 9,
  save_path: 10,
  stream: 11,
  zygote: 12,
  input_key: 13,
  folder: 14,
  keep: 15,
  keep_pattern: 16,
  pair: 17,
} as const;

/** What a run left; `enum left_kind` in sandbox/wire.h. */
const LEFT = { file: 1, refused: 2, output: 3, input: 4 } as const;
const LEFT_HEAD = 9;

const HEAD = 9;
const REPORT_HEAD = 128;
const NEVER = 0xffff_ffff_ffff_ffffn;
/** The positions of `enum ending` in src/sandbox/slot_record.h. By the type, no reason can be forgotten. */
const ENDING: Readonly<Record<KilledFor, number>> = {
  cpu: 1,
  wall: 2,
  output: 3,
  cancelled: 4,
  deadline: 5,
};
const KILLED_FOR = new Map(Object.entries(ENDING).map(([name, n]) => [n, name as KilledFor]));
const NOTHING = Buffer.alloc(0);

export function frame(type: number, id: number, parts: readonly Uint8Array[] = []): Buffer {
  const head = Buffer.allocUnsafe(HEAD);
  head.writeUInt32LE(lengthOf(parts) + HEAD - 4, 0);
  head.writeUInt8(type, 4);
  head.writeUInt32LE(id, 5);
  return Buffer.concat([head, ...parts]);
}

/**
 * An open box, or a run of a pair with the length of its transcript; null: a run of its own. The interactor of a pair
 * `judges`: what it prints is only passed on, without a limit.
 */
export type RunKind = 'stream' | { transcript_bytes: number; judges: boolean } | null;

/** A text holds a NUL, or the request is too large. The platform's own RangeErrors may mean that there is no memory. */
export class Unsendable extends RangeError {}

/** Throws Unsendable. */
export function encodeRequest(request: BoxRequest, kind: RunKind): Uint8Array[] {
  const parts: Uint8Array[] = [];
  const field = (tag: number, ...values: Uint8Array[]) => {
    const head = Buffer.allocUnsafe(5);
    head.writeUInt8(tag, 0);
    head.writeUInt32LE(lengthOf(values), 1);
    parts.push(head, ...values);
  };
  for (const argument of request.argv) field(FIELD.argument, text(argument));
  for (const [name, value] of Object.entries(request.env)) {
    field(FIELD.environment, text(`${name}=${value}`));
  }
  if (request.cwd !== undefined) field(FIELD.directory, text(request.cwd));
  for (const file of request.files) {
    field(FIELD.file, number32(file.mode ?? 0o644), text(file.path), file.bytes);
  }
  for (const folder of request.folders ?? []) field(FIELD.folder, text(folder));
  if (request.stdin_key !== undefined) field(FIELD.input_key, text(request.stdin_key));
  else if (request.stdin.length > 0) field(FIELD.stdin, request.stdin);
  field(FIELD.limits, encodeLimits(request.limits));
  field(FIELD.profile, text(request.profile));
  for (const { key, at } of request.load ?? []) field(FIELD.load, text(key), text(at));
  if (request.save !== undefined) {
    const { key, paths, max_bytes, max_files } = request.save;
    field(FIELD.save, number64(max_bytes), number32(max_files), text(key));
    for (const path of paths) field(FIELD.save_path, text(path));
  }
  if (request.keep !== undefined) {
    const { patterns, max_bytes, max_files, cut = { patterns: 0, bytes: 0 } } = request.keep;
    const rules = [cut.patterns, cut.bytes, request.keep.refuses_others ? 1 : 0];
    field(FIELD.keep, number64(max_bytes), number32(max_files), ...rules.map(number32));
    for (const pattern of patterns) field(FIELD.keep_pattern, text(pattern));
  }
  if (kind === 'stream') field(FIELD.stream);
  else if (kind !== null)
    field(FIELD.pair, number32(kind.transcript_bytes), number32(kind.judges ? 1 : 0));
  if (request.zygote !== undefined) field(FIELD.zygote, text(request.zygote.account));
  return fitting(parts);
}

/** The payload of one frame: two requests, of which the second has an id of its own. */
export function encodePair(
  requests: readonly [Uint8Array[], Uint8Array[]],
  second_id: number,
): Uint8Array[] {
  const [first, second] = requests;
  return fitting([number32(second_id), number32(lengthOf(first)), ...first, ...second]);
}

function fitting(parts: Uint8Array[]): Uint8Array[] {
  const length = lengthOf(parts);
  if (length > FRAME_MAX - HEAD) throw new Unsendable(`a request of ${length} bytes is too large`);
  return parts;
}

const lengthOf = (parts: readonly Uint8Array[]) =>
  parts.reduce((sum, part) => sum + part.length, 0);

/** In the order of `struct limits` (sandbox/wire.h). A limit that is missing here does not compile. */
const LIMIT_ORDER = Object.keys({
  cpu_ms: true,
  wall_ms: true,
  memory_bytes: true,
  processes: true,
  stdout_bytes: true,
  stderr_bytes: true,
  disk_bytes: true,
  inodes: true,
  files: true,
  stack_bytes: true,
} satisfies Record<keyof RunLimits, true>) as (keyof RunLimits)[];

function encodeLimits(limits: RunLimits): Buffer {
  return Buffer.concat(LIMIT_ORDER.map((name) => number64(limits[name])));
}

function text(value: string): Buffer {
  if (value.includes('\0')) throw new Unsendable('a text for the sandbox holds a NUL');
  return Buffer.from(`${value}\0`);
}

function number32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32LE(value, 0);
  return bytes;
}

export function number64(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64LE(BigInt(Math.trunc(value)), 0);
  return bytes;
}

/** A report, and what only pairs need of it. */
export type Ended = {
  report: RunReport;
  /** on the clock that the runs of a pair share */
  ended_us: number;
  /** what each of the two wrote, in order */
  conversation: { by_program: boolean; bytes: Buffer }[];
};

export function decodeReport(payload: Buffer): Ended {
  const number = (index: number) => Number(payload.readBigUInt64LE(16 + 8 * index));
  const how = payload.readUInt8(0);
  const killed_for = KILLED_FOR.get(payload.readUInt8(1)) ?? null;
  const saved = payload.readUInt8(2);
  const stdoutEnd = REPORT_HEAD + payload.readUInt32LE(112);
  const stderrEnd = stdoutEnd + payload.readUInt32LE(116);
  const lastEnd = stderrEnd + payload.readUInt32LE(124);
  const leftEnd = lastEnd + payload.readUInt32LE(120);
  const { conversation, ...kept } = decodeLeft(payload.subarray(lastEnd, leftEnd));
  const report: RunReport = {
    exit_code: how === 1 ? payload.readInt32LE(4) : null,
    // The launcher killed it before init could see how it ended: that was the launcher's SIGKILL.
    signal: how === 2 ? payload.readInt32LE(8) : how === 0 && killed_for !== null ? 9 : null,
    killed_for,
    limit_at_us: killed_for === null ? null : number(0),
    cpu_us: number(1),
    wall_us: number(2),
    memory_peak_bytes: number(3),
    oom_kills: number(4),
    memory_refused: number(10),
    processes_peak: payload.readBigUInt64LE(16 + 8 * 5) === NEVER ? null : number(5),
    pids_limit_hits: number(6),
    stdout_seen_bytes: number(7),
    stderr_seen_bytes: number(8),
    stdout: payload.subarray(REPORT_HEAD, stdoutEnd),
    stderr: payload.subarray(stdoutEnd, stderrEnd),
    ...(lastEnd > stderrEnd && { stderr_end: payload.subarray(stderrEnd, lastEnd) }),
    ...(saved === 1 && { saved: { bytes: number(9), files: payload.readUInt32LE(12) } }),
    ...(saved === 2 && { save_refused: payload.toString('utf8', leftEnd) }),
    ...((saved === 3 || saved === 4) && { save_failed: payload.toString('utf8', leftEnd) }),
    ...(saved === 4 && { store_full: true as const }),
    ...(payload.readUInt8(3) === 1 && kept),
  };
  return { report, ended_us: number(11), conversation };
}

function decodeLeft(
  left: Buffer,
): Required<Pick<RunReport, 'kept'>> &
  Pick<RunReport, 'keep_refused'> &
  Pick<Ended, 'conversation'> {
  const kept: { path: string; bytes: Uint8Array }[] = [];
  const conversation: Ended['conversation'] = [];
  let keep_refused: string | undefined;
  for (let at = 0; at < left.length; ) {
    const kind = left.readUInt8(at);
    const second = at + LEFT_HEAD + left.readUInt32LE(at + 1);
    const end = second + left.readUInt32LE(at + 5);
    const first = left.subarray(at + LEFT_HEAD, second);
    at = end;
    if (kind === LEFT.output || kind === LEFT.input) {
      conversation.push({ by_program: kind === LEFT.output, bytes: first });
    } else if (kind === LEFT.refused) {
      keep_refused ??= first.toString('utf8');
    } else if (isUtf8(first)) {
      // A name that is not UTF-8 is no text that could name the file.
      kept.push({ path: first.toString('utf8'), bytes: left.subarray(second, end) });
    } else {
      keep_refused ??= `${first.toString('utf8')}: its name is not UTF-8`;
    }
  }
  return { kept, conversation, ...(keep_refused !== undefined && { keep_refused }) };
}

export function pairReport(
  program: Ended,
  interactor: Ended,
  transcript_bytes: number,
): PairReport {
  return {
    program: program.report,
    interactor: interactor.report,
    program_ended_first: program.ended_us <= interactor.ended_us,
    transcript: renderTranscript(program.conversation, transcript_bytes),
  };
}

/**
 * The conversation as lines: `> ` before what the program wrote, `< ` before what its partner wrote. A line that the other
 * side interrupts is ended there. Cut after `max_bytes`.
 */
function renderTranscript(conversation: Ended['conversation'], max_bytes: number): Uint8Array {
  const lines = conversation.flatMap(({ by_program, bytes }) => {
    const written = bytes.toString('latin1').replace(/\n$/, '').split('\n');
    return written.map((line) => `${by_program ? '>' : '<'} ${line}\n`);
  });
  return Buffer.from(lines.join(''), 'latin1').subarray(0, max_bytes);
}

export function encodePeek(from: PerStream<number>, most_bytes: number): Uint8Array[] {
  return [number64(from.stdout), number64(from.stderr), number32(most_bytes)];
}

export function decodePeeked(payload: Buffer): PerStream<Buffer> {
  const end = 4 + payload.readUInt32LE(0);
  return { stdout: payload.subarray(4, end), stderr: payload.subarray(end) };
}

export function decodeUsage(payload: Buffer): Usage {
  const [cpu_us, memory_bytes, memory_peak_bytes] = [0, 8, 16].map((at) =>
    Number(payload.readBigUInt64LE(at)),
  ) as [number, number, number];
  return { cpu_us, memory_bytes, memory_peak_bytes };
}

/** Takes whole frames out of a byte stream, and joins no bytes twice. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #needed = HEAD;
  readonly #take: (type: number, id: number, payload: Buffer) => void;

  constructor(take: (type: number, id: number, payload: Buffer) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    let rest = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bytes);
    for (;;) {
      const whole = rest.length < HEAD ? HEAD : rest.readUInt32LE(0) + 4;
      this.#needed = whole;
      if (rest.length < whole) break;
      this.#take(rest.readUInt8(4), rest.readUInt32LE(5), rest.subarray(HEAD, whole));
      rest = rest.length === whole ? NOTHING : rest.subarray(whole);
    }
    this.#chunks = rest.length > 0 ? [rest] : [];
    this.#bytes = rest.length;
  }
}
