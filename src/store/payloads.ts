/** The payloads of a record that is too large to come with its row. */
import type { Db } from '../db.ts';
import type { ResultRow } from '../domain/record.ts';
import { hasEnded } from '../domain/statuses.ts';

type Kind = 'stdout' | 'stderr' | 'tests' | 'files' | 'transcript';
type Slice = { kind: Kind; bytes: Uint8Array };

/** Slices that come in one round trip. */
const SLICES = 4;

/** The row with the payloads that were left out. Those that came with it stay as they are. */
export async function withPayloads(db: Db, row: ResultRow): Promise<ResultRow> {
  const { large, ...known } = row;
  if (large === undefined) return row;
  const judging: Kind[] = ['tests', 'files', 'transcript'];
  const outputs = (['stdout', 'stderr'] as const).filter((kind) => known[kind] === null);
  const slices = new Map<Kind, Uint8Array[]>();
  const wanted = `{${[...outputs, ...judging].join(',')}}`;
  const reading = db<Slice[]>`
    select * from runledger.record_slices(${row.id}, ${wanted}::text::text[])`.cursor(SLICES);
  for await (const rows of reading) {
    for (const { kind, bytes } of rows) slices.set(kind, [...(slices.get(kind) ?? []), bytes]);
  }
  const whole = (kind: Kind) => {
    const list = slices.get(kind);
    slices.delete(kind);
    return list === undefined ? null : Buffer.concat(list);
  };
  // As in results.ts: an output that a purge has taken since, or that nobody stored, is empty.
  const none = hasEnded(row.status) ? new Uint8Array() : null;
  return {
    ...known,
    stdout: known.stdout ?? whole('stdout') ?? none,
    stderr: known.stderr ?? whole('stderr') ?? none,
    parts: { tests: whole('tests'), files: whole('files'), transcript: whole('transcript') },
  };
}
