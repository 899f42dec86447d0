/**
 * The notifications of submissions that are handed over (sql/functions/hand_over.sql). One sends a worker the execution that was
 * started for it. The other sends a web process the result that one of its requests waits for. Each listens on a channel whose
 * name only it and the database know.
 */
import { randomBytes } from 'node:crypto';
import type { ResultRow } from '../domain/record.ts';
import { type Started, type StartedRow, startedOf } from './executions.ts';
import type { FetchedJob } from './jobs.ts';
import { type BytesRow, resultRow } from './results.ts';

/** Nobody guesses it. */
export const secretChannel = (): string => `runledger_${randomBytes(16).toString('hex')}`;

type Named = { epoch: number; job_id: string; priority: number; submission_id: string };
/** As it comes in JSON. */
type InText<T> = {
  [name in keyof T]: T[name] extends Uint8Array | Date | null ? string | null : T[name];
};

/** Its execution is null where it was too large for a NOTIFY: it is to be asked for. */
export function handedJob(payload: string): FetchedJob {
  const { execution, ...named } = JSON.parse(payload) as Named & { execution?: InText<StartedRow> };
  return jobOf(named, execution ? startedOf(rowOf(execution)) : null);
}

export function jobOf(
  { epoch, job_id: id, priority, submission_id }: Named,
  started: Started | null,
): FetchedJob {
  return { id, epoch, priority, submission_id, alone: false, newcomer: false, started };
}

/** Jobs of graphile-worker have numbers above 0. */
export const wasHanded = ({ id }: Pick<FetchedJob, 'id'>): boolean => id.startsWith('-');

function rowOf(row: InText<StartedRow>): StartedRow {
  return {
    ...row,
    code: bytesOf(row.code),
    stdin: bytesOf(row.stdin),
    expected_output: bytesOf(row.expected_output),
    created_at: new Date(row.created_at!),
    started_at: new Date(row.started_at!),
    // Only small plain runs are handed over.
    judging: null,
    manifest: null,
    large: null,
  } as StartedRow;
}

/** The result, or only the id of a submission that has ended, if its result was too large for a NOTIFY. */
export function repliedResult(payload: string): ResultRow | { id: string } {
  const said = JSON.parse(payload) as
    | { id: string }
    | Pick<InText<BytesRow>, 'record' | 'stdout' | 'stderr'>;
  if ('id' in said) return said;
  const { record, stdout, stderr } = said;
  return resultRow({ record, stdout: bytesOf(stdout), stderr: bytesOf(stderr), judged: null });
}

const bytesOf = (base64: string | null) => (base64 === null ? null : Buffer.from(base64, 'base64'));
