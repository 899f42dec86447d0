/**
 * Checkpoints as verify meets them: in the database, in an exported file, and in a file that an auditor kept. None of them is
 * believed for where it was found. Each is a claim about the first `size` events, which its signatures back.
 */
import { dateOrNull, isAfter, timeText } from '../domain/clocks.ts';
import { type Checkpoint, parseCheckpoint } from '../proof/checkpoint.ts';
import { isSketchOf } from '../proof/log_key.ts';
import { BadNote, cosignedAt, type Note, parseNote, type VerifierKey } from '../proof/note.ts';
import { judgeCheckpoint, NONE, type Policy, quorumAt } from '../proof/policy.ts';
import type { Problems } from './problems.ts';

export type Kept = {
  readonly note: string;
  readonly sketch: null | { readonly cells: Buffer; readonly signature: Buffer };
};

export type SignedNote = Checkpoint & { readonly note: Note; readonly name: string };

/** Whom verify believes. Without a policy, the keys of this installation tell a forged checkpoint from ours. */
export type Trust = { readonly policy: Policy | null; readonly keys: readonly VerifierKey[] };

/** A checkpoint that the policy accepts, and that the log was found to match. */
export type Proven = {
  readonly size: number;
  readonly origin: string;
  /** See quorumAt. */
  readonly cosigned_at: Date | null;
  /** When the first of its witnesses signed: what it covers was there. */
  readonly first_cosigned_at: Date | null;
  readonly witnesses: readonly string[];
};

/** Leaves that are sealed behind the largest checkpoint that the policy accepts. */
export type Unaccepted = {
  readonly leaves: number;
  /** The earliest time of their events, as they say; null if none has a time. */
  readonly oldest_at: Date | null;
};

/** The times of the events behind the last checkpoint that was accepted. */
export class UnacceptedTimes {
  #earliest_us = Number.POSITIVE_INFINITY;
  /** Of those that a later checkpoint covers. */
  #sealed_us = Number.POSITIVE_INFINITY;

  take(at_us: number): void {
    if (at_us < this.#earliest_us) this.#earliest_us = at_us;
  }

  /** A checkpoint ends here. */
  seal(): void {
    this.#sealed_us = this.#earliest_us;
  }

  /** The policy accepts a checkpoint that ends here. */
  accept(): void {
    this.#earliest_us = this.#sealed_us = Number.POSITIVE_INFINITY;
  }

  /** Null if nothing is proven, or if all that is sealed is. */
  of(proven: Proven | null, sealed: number): Unaccepted | null {
    return proven && sealed > proven.size
      ? { leaves: sealed - proven.size, oldest_at: dateOrNull(this.#sealed_us) }
      : null;
  }
}

/** Reports a note that cannot be read, and returns null for it. */
export function readNote(text: string, name: string, problems: Problems): SignedNote | null {
  try {
    const note = parseNote(text);
    return { ...parseCheckpoint(note.text), note, name };
  } catch (error) {
    if (!(error instanceof BadNote)) throw error;
    problems.add('checkpoints', `${name} cannot be read: ${error.message}`);
    return null;
  }
}

/**
 * Reports a signature that is missing or wrong. Returns why the policy does not accept the checkpoint as proof: too few
 * witnesses may have signed it yet, which is no problem of the log.
 */
export function judge(trust: Trust, signed: SignedNote, problems: Problems): Proven | string {
  const policy = trust.policy ?? ownPolicy(trust.keys);
  if (!policy) return 'there is no policy';
  const { checkpoint, cosigned, problem } = judgeCheckpoint(policy, signed.note);
  const alone = { ...policy, quorum: 'none' };
  const unsigned = problem === null ? null : judgeCheckpoint(alone, signed.note).problem;
  if (unsigned !== null) problems.add('checkpoints', `${signed.name}: ${unsigned}`);
  const now = new Date();
  for (const { name, signature } of cosigned)
    if (isAfter(cosignedAt(signature), now))
      problems.add(
        'checkpoints',
        `the clock of the witness ${name} is wrong: its time on ${signed.name}, ${timeText(cosignedAt(signature))}, is still to come`,
      );
  if (problem !== null) return problem;
  if (!trust.policy) return 'there is no policy';
  return {
    size: checkpoint.size,
    origin: checkpoint.origin,
    cosigned_at: quorumAt(policy, cosigned),
    first_cosigned_at: quorumAt({ ...policy, quorum: NONE }, cosigned),
    witnesses: cosigned.map(({ name }) => name),
  };
}

function ownPolicy(keys: readonly VerifierKey[]): Policy | null {
  if (keys.length === 0) return null;
  return {
    logs: keys.map((key) => ({ key, url: null })),
    witnesses: [],
    groups: [],
    quorum: 'none',
  };
}

/** Whose cosignatures count. Without a policy, nobody's. */
export const witnessKeys = ({ policy }: Trust): readonly VerifierKey[] =>
  (policy?.witnesses ?? []).map(({ key }) => key);

/** Keys that may sign a sketch. */
const logKeys = ({ policy, keys }: Trust): readonly VerifierKey[] =>
  policy ? policy.logs.map(({ key }) => key) : keys;

/** Whether a key of the log signed this sketch. Where no key is known, nobody can say, and it is believed. */
export function isSketchOfLog(
  trust: Trust,
  { size, cells, signature }: { size: number; cells: Buffer; signature: Buffer },
): boolean {
  const keys = logKeys(trust);
  const isBy = (key: VerifierKey) =>
    isSketchOf([key], { origin: key.name, size }, cells, signature);
  return keys.length === 0 || keys.some(isBy);
}

/** Reports a sketch that the log's key did not sign. Where no key is known, nobody can say. */
export function judgeSketch(
  trust: Trust,
  of: Pick<Checkpoint, 'origin' | 'size'>,
  sketch: { cells: Buffer; signature: Buffer },
  name: string,
  problems: Problems,
): void {
  const keys = logKeys(trust);
  if (keys.length > 0 && !isSketchOf(keys, of, sketch.cells, sketch.signature))
    problems.add('checkpoints', `${name} is not signed by the log ${of.origin}`);
}
