/**
 * Checks a receipt, and what a customer has of a submission, with nothing else at hand: no database, no service.
 *
 *   1. Each entry is a leaf of the tree of one checkpoint, and the policy accepts that checkpoint.
 *   2. The entries are the events of one submission, from version 1 on without a hole, up to its end.
 *   3. The record is what these events say, field by field, and the bytes have the digests in them.
 *
 * What must stay true: nothing is `proven` unless a policy accepted the checkpoint and no check failed. What could not be
 * checked is said. The checks go on after a problem, so that all of them are named.
 */
import { FIRST_US, timeOf, timeText } from '../domain/clocks.ts';
import { hasFact, isOdd, KINDS_OF } from '../domain/events.ts';
import { type ResultRecord, renderResult } from '../domain/record.ts';
import { hasEnded } from '../domain/statuses.ts';
import { parseStrictly, sameJson } from '../domain/strict_json.ts';
import {
  type AppendedEvent,
  BadHistory,
  ENDING_TYPES,
  type Facts,
  foldSubmission,
} from '../domain/submission_fold.ts';
import { type Checkpoint, parseCheckpoint } from './checkpoint.ts';
import { parseEntry } from './entry.ts';
import { type InclusionProof, parseInclusion } from './inclusion_file.ts';
import {
  claimTexts,
  outputBytes,
  packedFiles,
  packedTests,
  type Reading,
  withoutTexts,
} from './judged_bytes.ts';
import { leafHash, provesInclusion, sha256 } from './merkle.ts';
import { cosignedAt, parseNote } from './note.ts';
import { judgeCheckpoint, type Policy } from './policy.ts';
import { bytesOf, type Receipt } from './receipt.ts';

export type Given = {
  /** Null: signatures are not checked. */
  readonly policy: Policy | null;
  /** As the service gave it, with its output as text or as base64. */
  readonly record: Readonly<Record<string, unknown>> | null;
  /** What was submitted or received, by the kind of bytes. */
  readonly bytes?: Readonly<Record<string, Uint8Array>>;
};

export type ReceiptReport = {
  readonly verdict: 'proven' | 'consistent' | 'wrong';
  readonly checked: readonly string[];
  readonly unchecked: readonly string[];
  readonly problems: readonly string[];
};

/** The fields of a record that hold bytes. Their digests are in the log, and they are not. */
const BYTES_FIELDS = ['stdout', 'stderr'];
/** The same for a submission that was judged: null for others, and after a purge. */
const JUDGED_FIELDS = ['files', 'transcript'];
const SALT_BYTES = 16;

export function checkReceipt(receipt: Receipt, given: Given): ReceiptReport {
  const report = new Report();
  const proofs = checkTree(receipt, given.policy, report);
  const events = readEvents(receipt, report);
  if (events) checkHistory(events, receipt, { ...given, proofs }, report);
  return report.end(given.policy !== null);
}

class Report {
  readonly checked: string[] = [];
  readonly unchecked: string[] = [];
  readonly problems: string[] = [];

  /** The result of the work; null if it throws, which is a problem. */
  try<T>(what: string, work: () => T): T | null {
    try {
      return work();
    } catch (error) {
      this.problems.push(`${what}: ${(error as Error).message}`);
      return null;
    }
  }

  end(has_policy: boolean): ReceiptReport {
    const { checked, unchecked, problems } = this;
    const well = has_policy ? 'proven' : 'consistent';
    return { verdict: problems.length > 0 ? 'wrong' : well, checked, unchecked, problems };
  }
}

type Proofs = { readonly indexes: readonly number[]; readonly checkpoint: Checkpoint | null };

function checkTree({ events }: Receipt, policy: Policy | null, report: Report): Proofs {
  const { problems } = report;
  const proofs = events.map(({ proof }, n) =>
    report.try(`event ${n + 1}: its proof`, () => parseInclusion(proof)),
  );
  const indexes = events.map(({ index }) => index);
  const note = proofs[0]?.checkpoint;
  if (note === undefined) return { indexes, checkpoint: null };
  const checkpoint = checkCheckpoint(note, policy, report);
  if (checkpoint === null) return { indexes, checkpoint };
  const before = problems.length;
  events.forEach(({ index, entry }, n) => {
    const proof = proofs[n];
    if (!proof) return;
    const problem = report.try(`event ${n + 1}`, () =>
      inclusionProblem({ index, entry: bytesOf(entry), proof, note, checkpoint }),
    );
    if (problem) problems.push(`event ${n + 1}: ${problem}`);
  });
  if (problems.length === before)
    report.checked.push(
      `${events.length} events are in the tree of ${checkpoint.origin} with ${checkpoint.size} leaves`,
    );
  return { indexes, checkpoint };
}

function inclusionProblem(claim: {
  index: number;
  entry: Buffer;
  proof: InclusionProof;
  note: string;
  checkpoint: Checkpoint;
}): string | null {
  const { index, entry, proof, note, checkpoint } = claim;
  if (proof.index !== index) return `it has index ${index}, and its proof is for ${proof.index}`;
  if (proof.checkpoint !== note) return 'its proof leads to another checkpoint';
  const { size, root } = checkpoint;
  const leaf = leafHash(entry);
  return provesInclusion({ index, size, leaf, proof: proof.hashes, root })
    ? null
    : 'it is not in the tree of the checkpoint';
}

function checkCheckpoint(text: string, policy: Policy | null, report: Report): Checkpoint | null {
  return report.try('the checkpoint', () => {
    const note = parseNote(text);
    if (policy === null) {
      report.unchecked.push('the signatures of the checkpoint, because no policy was given');
      return parseCheckpoint(note.text);
    }
    const { checkpoint, cosigned, problem } = judgeCheckpoint(policy, note);
    if (problem !== null) report.problems.push(`the checkpoint: ${problem}`);
    else {
      const by = cosigned.map(
        ({ name, signature }) => `${name} (${timeText(cosignedAt(signature))})`,
      );
      report.checked.push(
        `the checkpoint is signed by the log, and cosigned by ${by.join(', ') || 'no witness'}: the policy accepts it`,
      );
    }
    return checkpoint;
  });
}

/** The year 10000, whose text would have a sign and six digits. */
const END_US = BigInt(Date.UTC(10_000, 0) - Date.UTC(2000, 0)) * 1000n;

function readEvents({ events }: Receipt, report: Report): AppendedEvent[] | null {
  const read = events.map(({ entry }, n) =>
    report.try(`event ${n + 1}: its entry`, (): AppendedEvent => {
      const { stream, version, type, schema, at_us, facts } = parseEntry(bytesOf(entry));
      if (at_us < FIRST_US || at_us >= END_US) throw new Error('its time is none');
      const at = timeOf(at_us);
      return { stream, version, type, schema, at, facts: parseFacts(facts) };
    }),
  );
  return read.includes(null) ? null : (read as AppendedEvent[]);
}

function parseFacts(text: string): Facts {
  const facts = parseStrictly(text);
  if (typeof facts !== 'object' || facts === null || Array.isArray(facts))
    throw new Error('its facts are no JSON object');
  return facts as Facts;
}

/** Facts that something is compared with. */
function isLookedAt({ type, schema }: AppendedEvent, name: string): boolean {
  if (name === 'bytes') return true;
  if (type === 'submission.accepted') return name === 'language';
  if (type === 'submission.failed') return name === 'tests';
  return type === 'submission.completed' && hasFact(type, schema, name) && !UNUSED.has(name);
}

const UNUSED = new Set(['attempt', 'evidence']);

/** Of these, those that are not of their schema, or not in it and bytes: a file can have any. One may be absent. */
function oddFacts(events: readonly AppendedEvent[]): string[] {
  return events.flatMap((event, n) =>
    Object.keys(event.facts)
      .filter((name) => isLookedAt(event, name) && isOdd(event, name))
      .map((name) => `the events: event ${n + 1}: its fact ${name} is not of its schema`),
  );
}

type Digests = Readonly<Record<string, { size: number; sha256: string }>>;

/** A kind of bytes belongs to one type of event, and one event: otherwise a later event could replace a digest. */
function digestsOf(events: readonly AppendedEvent[], report: Report): Digests {
  const digests: Record<string, Digests[string]> = Object.create(null);
  events.forEach(({ type, facts }, n) => {
    const kinds: readonly string[] = Object.hasOwn(KINDS_OF, type)
      ? KINDS_OF[type as keyof typeof KINDS_OF]
      : [];
    for (const [kind, digest] of Object.entries(facts['bytes'] ?? {}))
      if (!kinds.includes(kind) || kind in digests)
        report.problems.push(
          `the events: event ${n + 1}: ${type} must not have a digest of ${kind} here`,
        );
      else digests[kind] = digest;
  });
  return digests;
}

function checkHistory(
  events: readonly AppendedEvent[],
  { openings }: Receipt,
  given: Given & { proofs: Proofs },
  report: Report,
): void {
  const row = report.try('the events', () => {
    const folded = foldSubmission(events);
    if (!hasEnded(folded.status)) throw new BadHistory('none of them ends the submission');
    return folded;
  });
  if (row === null) return;
  const odd = oddFacts(events);
  report.problems.push(...odd);
  if (odd.length > 0) return;
  report.checked.push(
    `they are the versions 1 to ${events.length} of submission ${row.id}, and end it`,
  );
  const digests = digestsOf(events, report);
  const salts = saltsOf(openings, digests, report);
  const seen = new Set<string>();
  const problemOf = (kind: string, bytes: Uint8Array | null) =>
    bytesProblem(bytes, digests[kind], salts.get(kind));
  const compare = (kind: string, bytes: Uint8Array | null) => {
    seen.add(kind);
    const problem = problemOf(kind, bytes);
    if (problem === null) report.checked.push(`${kind} is what the log has the digest of`);
    else report.problems.push(`${kind}: ${problem}`);
  };
  for (const [kind, bytes] of Object.entries(given.bytes ?? {})) compare(kind, bytes);
  if (given.record === null) report.unchecked.push('a record, because none was given');
  else {
    const end = events.findIndex(({ type }) => ENDING_TYPES.has(type));
    checkRecord(given.record, renderResult(row), { ...given.proofs, end }, report);
    const text = outputsOf(given.record, 'utf8');
    const decoded = outputsOf(given.record, 'base64');
    const problemsIn = (outputs: Outputs) =>
      [...outputs].filter(([kind, bytes]) => problemOf(kind, bytes) !== null).length;
    const is_base64 = problemsIn(decoded) < problemsIn(text);
    if (is_base64) report.checked.push('the outputs in the record are read as base64');
    for (const [kind, bytes] of is_base64 ? decoded : text) compare(kind, bytes);
    const { files } = given.record;
    if (files !== null) compare('files', packedFiles(files));
  }
  const rest = Object.keys(digests).filter((kind) => !seen.has(kind));
  if (rest.length > 0) report.unchecked.push(`bytes that were not given: ${rest.join(', ')}`);
}

/** An end is at an index, and the first checkpoint that has it is at most as large as the receipt's. */
function checkRecord(
  record: Readonly<Record<string, unknown>>,
  said: ResultRecord,
  { indexes, checkpoint, end }: Proofs & { end: number },
  report: Report,
): void {
  const expected: Record<string, unknown> = { ...said };
  const names = [...new Set([...Object.keys(expected), ...Object.keys(record)])];
  const wrong = names.filter((name) => {
    if (!Object.hasOwn(record, name) || !Object.hasOwn(expected, name)) return true;
    if (BYTES_FIELDS.includes(name) || JUDGED_FIELDS.includes(name)) return false;
    if (name === 'tests') return !sameJson(withoutTexts(record[name]), expected[name]);
    if (name === 'proof')
      return !isPlace(record[name], { index: indexes[end]!, size: checkpoint?.size ?? 0 });
    return !sameJson(record[name], expected[name] ?? null);
  });
  const shown = (of: Readonly<Record<string, unknown>>, name: string) =>
    Object.hasOwn(of, name) ? JSON.stringify(of[name] ?? null) : 'nothing';
  for (const name of wrong)
    report.problems.push(
      name === 'proof'
        ? `proof: the record names another place than the receipt, ${shown(record, name)}`
        : `${name}: the record says ${shown(record, name)}, and the log ${shown(expected, name)}`,
    );
  if (wrong.length === 0) report.checked.push(`the record: ${names.join(', ')}`);
}

/** Null in a record from before the sealing: it then claims nothing. */
function isPlace(proof: unknown, { index, size }: { index: number; size: number }): boolean {
  if (proof === null) return true;
  const { checkpoint } = proof as { checkpoint?: unknown };
  const fits = typeof checkpoint === 'number' && checkpoint > index && checkpoint <= size;
  return fits && sameJson(proof, { index, checkpoint });
}

function saltsOf(
  openings: Receipt['openings'],
  digests: Digests,
  report: Report,
): Map<string, Buffer> {
  const salts = new Map<string, Buffer>();
  for (const [kind, { salt }] of Object.entries(openings)) {
    const bytes = report.try(`the opening of ${kind}`, () => bytesOf(salt));
    if (bytes === null) continue;
    if (!Object.hasOwn(digests, kind))
      report.problems.push(`the opening of ${kind}: no event has a digest of it`);
    else if (bytes.length !== SALT_BYTES)
      report.problems.push(`the opening of ${kind}: a salt has ${SALT_BYTES} bytes`);
    else salts.set(kind, bytes);
  }
  return salts;
}

type Outputs = ReadonlyMap<string, Uint8Array | null>;

/** The bytes that a record stands for, by kind, if its outputs are read in this way. Null: it stands for none. */
function outputsOf(record: Readonly<Record<string, unknown>>, reading: Reading): Outputs {
  const { tests, transcript } = record;
  const outputs = new Map(BYTES_FIELDS.map((kind) => [kind, outputBytes(record[kind], reading)]));
  if (claimTexts(tests)) outputs.set('tests', packedTests(tests, reading));
  if (transcript !== null) outputs.set('transcript', outputBytes(transcript, reading));
  return outputs;
}

function bytesProblem(
  bytes: Uint8Array | null,
  digest: Digests[string] | undefined,
  salt: Buffer | undefined,
): string | null {
  if (bytes === null) return 'the record has none of it, or not all';
  // Empty bytes have no digest.
  if (digest === undefined) return bytes.length === 0 ? null : 'the log has no bytes of it';
  if (bytes.length !== digest.size && Buffer.from(bytes).includes('\ufffd'))
    return 'characters in it stand for bytes that are no text: get the record with encoding=base64';
  if (bytes.length !== digest.size)
    return `it has ${bytes.length} bytes, and the log says ${digest.size}`;
  if (salt === undefined) return 'the receipt has no opening of it, so it cannot be compared';
  const is_right = sha256(Buffer.concat([salt, bytes])).toString('hex') === digest.sha256;
  return is_right ? null : 'it is not what the log has the digest of';
}
