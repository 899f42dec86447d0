/**
 * The result record, as callers see it. The API and webhooks share one renderer, so that they never disagree. Pure: a row
 * in, an object for JSON.stringify out.
 */
import { hasEnded, type Status } from './statuses.ts';
import type { Verdict } from './verdicts.ts';

/** A submission as it is stored in the projections. Times are whole microseconds, sizes whole bytes. */
export type ResultRow = {
  id: string;
  account_id: string;
  status: Status;
  language: string;
  verdict: Verdict | null;
  exit_code: number | null;
  signal: string | null;
  stdout: Uint8Array | null;
  stderr: Uint8Array | null;
  stdout_truncated: boolean | null;
  stderr_truncated: boolean | null;
  cpu_time_us: number | null;
  wall_time_us: number | null;
  memory_peak_bytes: number | null;
  compile: CompileRow | null;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date | null;
  attempts: number;
};

export type CompileRow = {
  cpu_time_us: number | null;
  wall_time_us: number | null;
  memory_peak_bytes: number | null;
  exit_code: number | null;
  cached: boolean;
};

export type ResultEncoding = 'utf8' | 'base64';

/** The record that a caller gets: the same fields in every state, with nulls until there is a value. */
export type ResultRecord = {
  id: string;
  status: Status;
  verdict: Verdict | null;
  exit_code: number | null;
  signal: string | null;
  stdout: string | null;
  stderr: string | null;
  stdout_truncated: boolean | null;
  stderr_truncated: boolean | null;
  cpu_time: number | null;
  wall_time: number | null;
  memory_peak: number | null;
  compile: CompileRecord | null;
  language: string;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  attempts: number;
};

export type CompileRecord = {
  cpu_time: number | null;
  wall_time: number | null;
  memory_peak: number | null;
  exit_code: number | null;
  cached: boolean;
};

export function renderResult(row: ResultRow, encoding: ResultEncoding = 'utf8'): ResultRecord {
  const text = encoding === 'base64' ? base64Of : textOf;
  // Before the end a row may still have values of an earlier attempt that was lost; they are not a result.
  const ended = hasEnded(row.status);
  const shown = <T>(value: T): T | null => (ended ? value : null);
  return {
    id: row.id,
    status: row.status,
    verdict: shown(row.verdict),
    exit_code: shown(row.exit_code),
    signal: shown(row.signal),
    stdout: shown(row.stdout && text(row.stdout)),
    stderr: shown(row.stderr && text(row.stderr)),
    stdout_truncated: shown(row.stdout_truncated),
    stderr_truncated: shown(row.stderr_truncated),
    cpu_time: shown(secondsOf(row.cpu_time_us)),
    wall_time: shown(secondsOf(row.wall_time_us)),
    memory_peak: shown(row.memory_peak_bytes),
    compile: shown(row.compile && renderCompile(row.compile)),
    language: row.language,
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    completed_at: shown(row.completed_at?.toISOString() ?? null),
    attempts: row.attempts,
  };
}

function renderCompile(compile: CompileRow): CompileRecord {
  return {
    cpu_time: secondsOf(compile.cpu_time_us),
    wall_time: secondsOf(compile.wall_time_us),
    memory_peak: compile.memory_peak_bytes,
    exit_code: compile.exit_code,
    cached: compile.cached,
  };
}

/** Dividing whole microseconds gives the double nearest to the decimal, which prints with at most six decimal places. */
function secondsOf(microseconds: number | null): number | null {
  return microseconds === null ? null : microseconds / 1_000_000;
}

// ignoreBOM: a byte order mark that the program printed is part of its output.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Each maximal invalid sequence becomes one U+FFFD (the WHATWG rule), so the text is always valid JSON. */
export function textOf(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
