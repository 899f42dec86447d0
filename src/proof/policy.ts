/**
 * Whom an auditor believes (c2sp.org/tlog-policy): the keys of the log, the keys of witnesses, and how many of these must
 * have cosigned a checkpoint. It is a file outside the database.
 *
 *   log NAME+ID+KEY [URL]
 *   witness NAME KEY [URL]
 *   group NAME all|any|NUMBER NAME...
 *   quorum NAME|none
 */
import { type Checkpoint, parseCheckpoint } from './checkpoint.ts';
import {
  cosignedAt,
  keyText,
  LOG_KEY,
  type Note,
  type NoteSignature,
  parseKey,
  signatureBy,
  type VerifierKey,
  WITNESS_KEY,
} from './note.ts';

export type PolicyWitness = {
  readonly name: string;
  readonly key: VerifierKey;
  readonly url: string | null;
};

export type Policy = {
  readonly logs: readonly { readonly key: VerifierKey; readonly url: string | null }[];
  readonly witnesses: readonly PolicyWitness[];
  readonly groups: readonly Group[];
  /** A witness, a group, or 'none'. */
  readonly quorum: string;
};

type Group = { readonly name: string; readonly least: number; readonly members: readonly string[] };

export const NONE = 'none';
/** The group of all witnesses, in a policy that is made here. */
const ALL = 'witnesses';

export class BadPolicy extends Error {}

export function parsePolicy(text: string): Policy {
  if (/[^\t\n\x20-\x7e\u0080-\uffff]/.test(text))
    throw new BadPolicy('the policy has control characters');
  const reading = new Reading();
  text.split('\n').forEach((line, n) => {
    const words = line.split(/[ \t]+/).filter(Boolean);
    if (words.length === 0 || words[0]!.startsWith('#')) return;
    try {
      reading.take(words);
    } catch (error) {
      throw new BadPolicy(`line ${n + 1}: ${(error as Error).message}`);
    }
  });
  return reading.policy();
}

class Reading {
  readonly #logs: Policy['logs'][number][] = [];
  readonly #witnesses: PolicyWitness[] = [];
  readonly #groups: Group[] = [];
  /** Public keys, and names with ids, of the logs and witnesses so far; names of the witnesses and groups; and of members. */
  readonly #log_keys = new Set<string>();
  readonly #witness_keys = new Set<string>();
  readonly #names = new Set<string>([NONE]);
  readonly #members = new Set<string>();
  #quorum: string | null = null;

  take([word, ...rest]: string[]): void {
    if (word === 'log') this.#takeLog(rest);
    else if (word === 'witness') this.#takeWitness(rest);
    else if (word === 'group') this.#takeGroup(rest);
    else if (word === 'quorum') this.#takeQuorum(rest);
    else throw new BadPolicy(`'${word}' is none of log, witness, group, quorum`);
  }

  policy(): Policy {
    if (this.#quorum === null) throw new BadPolicy('the policy has no quorum line');
    return {
      logs: this.#logs,
      witnesses: this.#witnesses,
      groups: this.#groups,
      quorum: this.#quorum,
    };
  }

  #takeLog([key, url, ...more]: string[]): void {
    if (!key || more.length > 0) throw new BadPolicy('a log has a verifier key, and at most a URL');
    this.#logs.push({ key: keyOf(key, LOG_KEY, this.#log_keys), url: url ?? null });
  }

  #takeWitness([name, key, url, ...more]: string[]): void {
    if (!name || !key || more.length > 0)
      throw new BadPolicy('a witness has a name, a verifier key, and at most a URL');
    this.#define(name);
    this.#witnesses.push({
      name,
      key: keyOf(key, WITNESS_KEY, this.#witness_keys),
      url: url ?? null,
    });
  }

  #takeGroup([name, least, ...members]: string[]): void {
    if (!name || !least || members.length === 0)
      throw new BadPolicy('a group has a name, all, any or a number, and its members');
    for (const member of members) {
      this.#mustBeDefined(member);
      if (this.#members.has(member)) throw new BadPolicy(`'${member}' is in a group already`);
      this.#members.add(member);
    }
    this.#define(name);
    const number = least === 'all' ? members.length : least === 'any' ? 1 : numberOf(least);
    if (!(number >= 1 && number <= members.length))
      throw new BadPolicy(`'${least}' is not between 1 and ${members.length}`);
    this.#groups.push({ name, least: number, members });
  }

  #takeQuorum([name, ...more]: string[]): void {
    if (this.#quorum !== null) throw new BadPolicy('there is a second quorum line');
    if (!name || more.length > 0) throw new BadPolicy('a quorum is one name, or none');
    if (name !== NONE) this.#mustBeDefined(name);
    this.#quorum = name;
  }

  #define(name: string): void {
    if (this.#names.has(name)) throw new BadPolicy(`'${name}' is taken`);
    this.#names.add(name);
  }

  #mustBeDefined(name: string): void {
    if (name === NONE || !this.#names.has(name))
      throw new BadPolicy(`'${name}' is not defined above`);
  }
}

const numberOf = (text: string) => (/^[1-9][0-9]*$/.test(text) ? Number(text) : Number.NaN);

function keyOf(text: string, type: number, others: Set<string>): VerifierKey {
  const key = parseKey(text);
  if (key.type !== type)
    throw new BadPolicy(`${key.name}: its key is of type ${key.type}, and not of type ${type}`);
  const digits = key.public_key.toString('hex');
  if (others.has(digits)) throw new BadPolicy(`${key.name}: its key is there already`);
  // Signatures are found by both. An id is short: who wants to spoil another's signatures can search for such a key.
  const name = `${key.name}+${key.id}`;
  if (others.has(name)) throw new BadPolicy(`${name}: another key has this name and id`);
  return others.add(digits).add(name) && key;
}

/**
 * Believes these keys of one log. Of the witnesses, all must cosign; one whose name is taken gets a number. A policy cannot name a public key twice, so a key that
 * had another name before is there under its first name in `keys` alone.
 */
export function policyFor(
  keys: readonly VerifierKey[],
  given: readonly Omit<PolicyWitness, 'name'>[],
): Policy {
  const taken = new Set<string>([NONE, ALL]);
  const witnesses = given.map((each) => {
    let name = each.key.name;
    for (let n = 2; taken.has(name); n++) name = `${each.key.name}-${n}`;
    taken.add(name);
    return { ...each, name };
  });
  const members = witnesses.map(({ name }) => name);
  return {
    logs: keys
      .filter((key, n) => n === keys.findIndex((each) => each.public_key.equals(key.public_key)))
      .map((key) => ({ key, url: null })),
    witnesses,
    groups: members.length > 1 ? [{ name: ALL, least: members.length, members }] : [],
    quorum: members.length > 1 ? ALL : (members[0] ?? NONE),
  };
}

export type Judged = {
  readonly checkpoint: Checkpoint;
  /** The names of the witnesses that cosigned, with their signatures. */
  readonly cosigned: readonly { readonly name: string; readonly signature: NoteSignature }[];
  /** Why the policy does not accept the checkpoint, in one line; null if it does. */
  readonly problem: string | null;
};

/** Whether the policy accepts this checkpoint. A signature that claims a known key and does not verify spoils the note. */
export function judgeCheckpoint(policy: Policy, note: Note): Judged {
  const checkpoint = parseCheckpoint(note.text);
  const cosigned: { name: string; signature: NoteSignature }[] = [];
  const refuse = (problem: string) => ({ checkpoint, cosigned, problem });
  const logs = policy.logs.filter(({ key }) => key.name === checkpoint.origin);
  if (logs.length === 0) return refuse(`the policy has no log ${checkpoint.origin}`);
  const signed = logs.map(({ key }) => signatureBy(note, key));
  const witnesses = policy.witnesses.map(({ name, key }) => ({ name, by: signatureBy(note, key) }));
  const bad = [...signed, ...witnesses.map(({ by }) => by)].includes(false);
  if (bad) return refuse('a signature of a key in the policy is not of this checkpoint');
  if (signed.every((each) => each === null))
    return refuse(`it is not signed by the log ${checkpoint.origin}`);
  for (const { name, by } of witnesses) if (by) cosigned.push({ name, signature: by });
  if (!meetsQuorum(policy, names(cosigned)))
    return refuse(
      `too few witnesses cosigned it: ${cosigned.length}, and the quorum is ${policy.quorum}`,
    );
  return { checkpoint, cosigned, problem: null };
}

const names = (cosigned: Judged['cosigned']) => cosigned.map(({ name }) => name);

function meetsQuorum({ groups, quorum }: Policy, witnesses: readonly string[]): boolean {
  const met = new Set([NONE, ...witnesses]);
  for (const { name, least, members } of groups)
    if (members.filter((member) => met.has(member)).length >= least) met.add(name);
  return met.has(quorum);
}

/**
 * When the quorum had signed: fewer witnesses than the policy asks for cannot make a checkpoint look older. Where it asks for
 * none, when the first signed; null if nobody did.
 */
export function quorumAt(policy: Policy, cosigned: Judged['cosigned']): Date | null {
  const in_time = cosigned.toSorted((a, b) => timeOf(a) - timeOf(b) || 0);
  const needed = in_time.findIndex((_, n) => meetsQuorum(policy, names(in_time.slice(0, n + 1))));
  return needed < 0 ? null : cosignedAt(in_time[needed]!.signature);
}

/** A time that is none comes last. */
function timeOf({ signature }: Judged['cosigned'][number]): number {
  const time = cosignedAt(signature).getTime();
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

/** The policy's file; with `comment` lines on top. */
export function policyText(policy: Policy, comment: readonly string[] = []): string {
  const line = (...words: (string | number | null)[]) =>
    `${words.filter((w) => w !== null).join(' ')}\n`;
  return [
    ...comment.map((text) => `# ${text}\n`),
    ...policy.logs.map(({ key, url }) => line('log', keyText(key), url)),
    ...policy.witnesses.map(({ name, key, url }) => line('witness', name, keyText(key), url)),
    ...policy.groups.map(({ name, least, members }) => line('group', name, least, ...members)),
    line('quorum', policy.quorum),
  ].join('');
}
