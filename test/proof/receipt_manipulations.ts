/** Changes to a receipt and its record, one for each kind of bytes in them. A verifier must find every one. */
import { entryOf, parseEntry } from '../../src/proof/entry.ts';
import type { AnyReceipt, AnyRecord, Case } from './both_verifiers.ts';

/** `other`: a case of another submission of the same log. */
export type Manipulation = readonly [name: string, change: (given: Case, other: Case) => unknown];

const flipped = (base64: string, at: number): string => {
  const bytes = Buffer.from(base64, 'base64');
  bytes[at < 0 ? bytes.length + at : at]! ^= 1;
  return bytes.toString('base64');
};

type Lines = (lines: string[]) => string[];

/** Changes the lines of the proof of event `n`: 0 is its first line, 1 the index, then the hashes. */
function proofLines(n: number, change: Lines): Manipulation[1] {
  return ({ receipt }) => {
    const event = receipt.events[n]!;
    const end = event.proof.indexOf('\n\n');
    event.proof = change(event.proof.slice(0, end).split('\n')).join('\n') + event.proof.slice(end);
  };
}

/** Changes the lines of the checkpoint, in the same way in every event: origin, size, root, '', signatures. */
function noteLines(change: Lines): Manipulation[1] {
  return ({ receipt }) => {
    for (const event of receipt.events) {
      const end = event.proof.indexOf('\n\n') + 2;
      const lines = change(event.proof.slice(end, -1).split('\n'));
      event.proof = `${event.proof.slice(0, end)}${lines.join('\n')}\n`;
    }
  };
}

/** Flips a bit of a signature line; line 4 is the log's, line 5 the witness's. Bytes 0 to 3 are the id of the key. */
const signature = (line: number, at: number) =>
  noteLines((lines) => {
    const [dash, name, bytes] = lines[line]!.split(' ');
    return lines.with(line, `${dash} ${name} ${flipped(bytes!, at)}`);
  });

function entry(n: number, change: (entry: Buffer) => Uint8Array): Manipulation[1] {
  return ({ receipt }) => {
    const event = receipt.events.at(n)!;
    event.entry = Buffer.from(change(Buffer.from(event.entry, 'base64'))).toString('base64');
  };
}

const bit = (at: number) => (bytes: Buffer) => bytes.with(at, bytes[at]! ^ 1);

const otherText = (text: string, to: string) => (bytes: Buffer) => {
  const at = bytes.lastIndexOf(text);
  if (at < 0) throw new Error(`the entry has no ${text}`);
  bytes.write(to, at);
  return bytes;
};

const facts = (change: (facts: string) => string): Manipulation[1] =>
  entry(-1, (bytes) => {
    const event = parseEntry(bytes);
    return entryOf({ ...event, facts: change(event.facts) });
  });

const events =
  (change: (all: AnyReceipt['events'], other: AnyReceipt['events']) => AnyReceipt['events']) =>
  ({ receipt }: Case, other: Case) =>
    Object.assign(receipt, { events: change(receipt.events, other.receipt.events) });

const event = (n: number, change: (one: AnyReceipt['events'][number]) => object) =>
  events((all) => all.with(n, { ...all[n]!, ...change(all[n]!) }));

const opening =
  (kind: string, change: (openings: AnyReceipt['openings']) => { salt: string } | undefined) =>
  ({ receipt }: Case) => {
    const { [kind]: _, ...rest } = receipt.openings;
    const changed = change(receipt.openings);
    Object.assign(receipt, { openings: changed ? { ...rest, [kind]: changed } : rest });
  };

const record =
  (change: (record: AnyRecord, other: AnyRecord) => AnyRecord) => (given: Case, other: Case) =>
    Object.assign(given, { record: change(given.record!, other.record!) });

const place = (change: (proof: { index: number; checkpoint: number }) => object) =>
  record((all) => ({ ...all, proof: { ...all['proof'], ...change(all['proof']) } }));

export const MANIPULATIONS: readonly Manipulation[] = [
  ['entry: a verdict', entry(-1, otherText('"AC"', '"WA"'))],
  ['entry: the time', entry(0, bit(60))],
  ['entry: the stream', entry(1, bit(6))],
  ['entry: the version', entry(1, bit(29))],
  ['entry: a byte less', entry(0, (bytes) => bytes.subarray(0, -1))],
  ['entry: a byte more', entry(0, (bytes) => Buffer.concat([bytes, Buffer.of(0)]))],
  ['entry: empty', event(0, () => ({ entry: '' }))],
  ['entry: not base64', event(0, () => ({ entry: '%%%%' }))],
  ['entry: base64 with more padding', event(0, (one) => ({ entry: `${one.entry}=` }))],

  ['facts: null', facts(() => 'null')],
  [
    'facts: digests that are null',
    facts((text) => text.replace(/"stdout": ?\{[^}]*\}/, '"stdout": null')),
  ],
  ['facts: tests that are no list', facts((text) => text.replace(/\}$/, ', "tests": {}}'))],
  ['facts: a test that is null', facts((text) => text.replace(/\}$/, ', "tests": [null]}'))],

  ['index: of the event', event(1, ({ index }) => ({ index: index + 1 }))],
  ['index: of the proof', proofLines(1, (lines) => lines.with(1, 'index 0'))],
  [
    'index: of both',
    event(1, ({ index, proof }) => ({
      index: index + 1,
      proof: proof.replace(/^index .*$/m, `index ${index + 1}`),
    })),
  ],
  ['index: negative', event(0, () => ({ index: -1 }))],
  [
    'index: a zero before it',
    proofLines(0, (lines) => lines.with(1, lines[1]!.replace(' ', ' 0'))),
  ],
  [
    'index: beyond the tree',
    event(0, ({ proof }) => ({
      index: 1e9,
      proof: proof.replace(/^index .*$/m, 'index 1000000000'),
    })),
  ],

  ['proof: the first line', proofLines(0, (lines) => lines.with(0, 'c2sp.org/tlog-proof@v2'))],
  ['proof: no index', proofLines(0, (lines) => lines.toSpliced(1, 1))],
  ['hash: a bit', proofLines(0, (lines) => lines.with(2, flipped(lines[2]!, 31)))],
  ['hash: one less', proofLines(0, (lines) => lines.slice(0, -1))],
  ['hash: one more', proofLines(0, (lines) => [...lines, lines[2]!])],
  ['hash: two exchanged', proofLines(0, (lines) => lines.with(2, lines[3]!).with(3, lines[2]!))],
  ['hash: too short', proofLines(0, (lines) => lines.with(2, 'AAAA'))],
  ['hash: not base64', proofLines(0, (lines) => lines.with(2, '?'))],

  ['checkpoint: the origin', noteLines((lines) => lines.with(0, `${lines[0]}x`))],
  ['checkpoint: the size', noteLines((lines) => lines.with(1, String(Number(lines[1]) + 1)))],
  ['checkpoint: a zero before the size', noteLines((lines) => lines.with(1, `0${lines[1]}`))],
  ['checkpoint: the root', noteLines((lines) => lines.with(2, flipped(lines[2]!, 0)))],
  ['checkpoint: one more line', noteLines((lines) => lines.toSpliced(3, 0, 'more'))],
  ['checkpoint: no signatures', noteLines((lines) => lines.slice(0, 4))],
  ['checkpoint: cut off', noteLines((lines) => lines.slice(0, 2))],
  [
    'checkpoint: in one event another',
    event(1, ({ proof }) => ({ proof: `${proof}— x AAAAAAAA\n` })),
  ],

  ['signature: a bit', signature(4, 20)],
  ['signature: its last byte', signature(4, -1)],
  ['signature: of an unknown key', signature(4, 0)],
  ['signature: none by the log', noteLines((lines) => lines.toSpliced(4, 1))],
  ['signature: a malformed line', noteLines((lines) => [...lines, '- x y'])],
  [
    'signature: twice, once wrong',
    noteLines((lines) => {
      const [dash, name, bytes] = lines[4]!.split(' ');
      return [...lines, `${dash} ${name} ${flipped(bytes!, 30)}`];
    }),
  ],
  ['cosignature: a bit', signature(5, 40)],
  ['cosignature: its time', signature(5, 11)],
  ['cosignature: none', noteLines((lines) => lines.toSpliced(5, 1))],

  ['salt: a bit', opening('stdout', ({ stdout }) => ({ salt: flipped(stdout!.salt, 3) }))],
  ['salt: too short', opening('code', () => ({ salt: 'AAAA' }))],
  ['salt: not base64', opening('code', () => ({ salt: '!' }))],
  ['salt: of other bytes', opening('stdout', ({ code }) => code)],
  ['opening: none of the output', opening('stdout', () => undefined)],
  ['opening: of bytes that there are not', opening('moon', ({ code }) => code)],

  ['events: without the first', events((all) => all.slice(1))],
  ['events: without one in the middle', events((all) => all.toSpliced(1, 1))],
  ['events: without the end', events((all) => all.slice(0, -1))],
  ['events: in another order', events((all) => all.toReversed())],
  ['events: one twice', events((all) => all.toSpliced(1, 0, all[1]!))],
  ['events: the end twice', events((all) => [...all, all.at(-1)!])],
  ['events: one of another submission', events((all, other) => all.with(1, other[1]!))],
  ['events: the end of another submission', events((all, other) => all.with(-1, other.at(-1)!))],
  ['events: one more of another submission', events((all, other) => [...all, other.at(-1)!])],
  ['events: all of another submission', events((_, other) => other)],

  ['record: of another submission', record((_, other) => other)],
  ['record: empty', record(() => ({}))],
  ['record: a field more', record((all) => ({ ...all, bonus: null }))],
  ['record: stdout of the same length', record((all) => ({ ...all, stdout: '24\n' }))],
  ['record: stdout is no text', record((all) => ({ ...all, stdout: null }))],
  ['record: a truth for a number', record((all) => ({ ...all, attempts: true }))],
  ['record: a number as text', record((all) => ({ ...all, attempts: '1' }))],
  ['record: proof with another index', place(({ index }) => ({ index: index + 1 }))],
  ['record: proof with a checkpoint too small', place(({ index }) => ({ checkpoint: index }))],
  ['record: proof with a checkpoint too large', place(() => ({ checkpoint: 1e9 }))],
  ['record: proof with a field more', place(() => ({ more: 1 }))],
  ['record: proof with a field less', record((all) => ({ ...all, proof: { checkpoint: 1 } }))],

  [
    'policy: it does not know the log',
    (given) => Object.assign(given, { policy: given.policy.replace(/^log .*$/m, '') }),
  ],
];

/** For each field of the record: another value, and none. */
export const recordManipulations = (all: AnyRecord): Manipulation[] =>
  Object.keys(all).flatMap((name): Manipulation[] => [
    [`record: another ${name}`, record((found) => ({ ...found, [name]: another(found[name]) }))],
    [`record: no ${name}`, record(({ [name]: _, ...rest }) => rest)],
  ]);

function another(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'string') return `${value}.`;
  if (value === null) return 'something';
  const [first] = Object.entries(value as object);
  return { ...(value as object), [first![0]]: another(first![1]) };
}
