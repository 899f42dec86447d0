/** Receipts that the log's key really signed, over events that are no history of a submission; with both verifiers. */
import t from 'tap';
import {
  factsOf,
  packFiles,
  packTests,
  renderFiles,
  renderTests,
} from '../../src/domain/judged_record.ts';
import { textOf } from '../../src/domain/record.ts';
import { notRun, type TestOutcome } from '../../src/judging/outcome.ts';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { entryOf } from '../../src/proof/entry.ts';
import { inclusionText } from '../../src/proof/inclusion_file.ts';
import { withoutTexts } from '../../src/proof/judged_bytes.ts';
import { leafHash, sha256 } from '../../src/proof/merkle.ts';
import {
  keyText,
  LOG_KEY,
  type NoteSignature,
  NoteSigner,
  noteText,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { parsePolicy } from '../../src/proof/policy.ts';
import { NoReceipt, parseReceipt } from '../../src/proof/receipt.ts';
import { checkReceipt } from '../../src/proof/receipt_check.ts';
import { GrowingTree, Tiles } from '../../src/proof/tiles.ts';
import { type AnyReceipt, type AnyRecord, bothVerifiers, type Case } from './both_verifiers.ts';
import { MANIPULATIONS, recordManipulations } from './receipt_manipulations.ts';
import { throwsA } from './throws.ts';

// needs: python3
const log = new NoteSigner('example.org/log', LOG_KEY, Buffer.alloc(32, 1));
const witness = new NoteSigner('w.example.org', WITNESS_KEY, Buffer.alloc(32, 2));
const logLine = `log ${keyText(log.verifier)}\n`;
const POLICY = `${logLine}witness w ${keyText(witness.verifier)}\nquorum w\n`;

const STREAM = '018f0000-0000-7000-8000-000000000000';
const SALTS = {
  ...{ code: Buffer.alloc(16, 5), stdout: Buffer.alloc(16, 6), tests: Buffer.alloc(16, 7) },
  ...{ files: Buffer.alloc(16, 8), transcript: Buffer.alloc(16, 9) },
};
type Kind = keyof typeof SALTS;
const digest = (kind: Kind, text: string | Uint8Array) => ({
  size: Buffer.byteLength(text),
  sha256: sha256(Buffer.concat([SALTS[kind], Buffer.from(text)])).toString('hex'),
});

type Step = {
  type: string;
  schema?: number;
  stream?: string;
  version?: number;
  at_us?: bigint;
  facts?: object;
  /** Their bytes, in place of the text that the facts have. */
  text?: string | Buffer;
};
const accepted: Step = {
  type: 'submission.accepted',
  facts: { language: 'python', bytes: { code: digest('code', 'print(42)') } },
};
const started: Step = { type: 'execution.started', schema: 2, facts: { attempt: 1 } };
const END = {
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  memory_peak_bytes: 7,
  compile: null,
  bytes: { stdout: digest('stdout', '42\n') },
};
const completed: Step = {
  type: 'submission.completed',
  schema: 2,
  facts: {
    ...END,
    cpu_time_us: 1,
    wall_time_us: 2,
    stdout_truncated: false,
    stderr_truncated: false,
  },
};
const failed: Step = { type: 'submission.failed', facts: { exit_code: 9, bytes: {} } };
const lost: Step = { type: 'execution.lost', schema: 2 };
const refused: Step = { type: 'execution.refused', schema: 2 };
const requested: Step = { type: 'delivery.requested' };

/** 2026-11-20T09:22:23.104999Z, and a second more for each event. */
const AT_US = BigInt(Date.UTC(2026, 10, 20, 9, 22, 23, 104) - Date.UTC(2000, 0, 1)) * 1000n + 999n;

/** Receipts of these events from one tree, with other leaves around them. */
function receiptsOf(...all: (readonly Step[])[]): AnyReceipt[] {
  return signedReceipts(all, (text) => [log.sign(text), witness.sign(text)]);
}

/** `more`: further lines of the checkpoint. */
function signedReceipts(
  all: readonly (readonly Step[])[],
  sign: (text: string) => NoteSignature[],
  more = '',
): AnyReceipt[] {
  const lists = all.map(entriesOf);
  const tree = new GrowingTree(0, []);
  const other = leafHash(Buffer.from('another'));
  tree.append(other);
  for (const entry of lists.flat()) for (const leaf of [leafHash(entry), other]) tree.append(leaf);
  const { size } = tree;
  const text = `${checkpointText({ origin: log.verifier.name, size, root: tree.root() })}${more}`;
  const checkpoint = noteText({ text, signatures: sign(text) });
  const tiles = new Tiles(tree.takeChanged());
  return lists.map((entries) => ({
    events: entries.map((entry) => {
      const index = 1 + 2 * lists.flat().indexOf(entry);
      const hashes = tiles.inclusionProof(index, tree.size);
      const proof = inclusionText({ index, hashes, checkpoint });
      return { index, entry: entry.toString('base64'), proof };
    }),
    openings: openings(['code', 'stdout']),
  }));
}

const openings = (kinds: readonly Kind[]) =>
  Object.fromEntries(kinds.map((kind) => [kind, { salt: SALTS[kind].toString('base64') }]));

const receiptOf = (steps: readonly Step[]) => receiptsOf(steps)[0]!;

function entriesOf(steps: readonly Step[]): Buffer[] {
  return steps.map(({ type, schema = 1, stream = STREAM, version, at_us, facts = {}, text }, n) => {
    const entry = entryOf({
      stream,
      version: version ?? n + 1,
      type,
      schema,
      at_us: at_us ?? AT_US + BigInt(n) * 1_000_000n,
      generation: 1,
      xid: BigInt(n),
      seq: BigInt(n),
      facts: text === undefined ? JSON.stringify(facts) : '',
    });
    if (text === undefined) return entry;
    const bytes = Buffer.from(text);
    entry.writeInt32BE(1 + bytes.length, entry.length - 5);
    return Buffer.concat([entry, bytes]);
  });
}

const RECORD: AnyRecord = {
  id: STREAM,
  status: 'completed',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: '42\n',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time: 0.000001,
  wall_time: 0.000002,
  memory_peak: 7,
  compile: null,
  limits: null,
  limit_exceeded: null,
  tests: null,
  score: null,
  files: null,
  transcript: null,
  progress: null,
  language: 'python',
  created_at: '2026-11-20T09:22:23.104Z',
  started_at: '2026-11-20T09:22:24.104Z',
  completed_at: '2026-11-20T09:22:25.104Z',
  attempts: 1,
  proof: { index: 5, checkpoint: 7 },
};
const HONEST = [accepted, started, completed];

/** Outputs of the record as the service gives them with `encoding=base64`. */
const EXACT = { stdout: 'NDIK', stderr: '', transcript: 'PiAxCg==' };

t.test('histories', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const given = (steps: readonly Step[], record: AnyRecord | null = null) => ({
    receipt: receiptOf(steps),
    record,
    policy: POLICY,
  });
  await proven('the honest one', given(HONEST, RECORD));
  const in_base64 = given(HONEST, { ...RECORD, stdout: 'NDIK' });
  await proven('outputs as base64', in_base64);
  const { checked } = checkReceipt(parseReceipt(JSON.stringify(in_base64.receipt)), {
    policy: parsePolicy(POLICY),
    record: in_base64.record,
  });
  t.strictSame(checked.slice(-3), [
    'the outputs in the record are read as base64',
    'stdout is what the log has the digest of',
    'stderr is what the log has the digest of',
  ]);
  await proven('events after the end', given([...HONEST, requested, refused], RECORD));
  const again = {
    started_at: '2026-11-20T09:22:26.104Z',
    completed_at: '2026-11-20T09:22:27.104Z',
  };
  await proven(
    'a second attempt',
    given([accepted, started, lost, started, completed], {
      ...RECORD,
      ...again,
      attempts: 2,
      proof: { index: 9, checkpoint: 11 },
    }),
  );
  const nothing = Object.fromEntries(Object.keys(RECORD).map((name) => [name, null]));
  const receipt = { ...receiptOf([accepted, failed]), openings: {} };
  await proven('a failure before a start, whose facts do not count', {
    receipt,
    policy: POLICY,
    record: {
      ...nothing,
      id: STREAM,
      status: 'error',
      verdict: 'IE',
      stdout: '',
      stderr: '',
      stdout_truncated: false,
      stderr_truncated: false,
      language: 'python',
      created_at: RECORD['created_at'],
      completed_at: '2026-11-20T09:22:24.104Z',
      attempts: 0,
    },
  });
  const old: Step = {
    type: 'submission.completed',
    schema: 1,
    facts: { ...END, cpu_ms: 3, wall_ms: null, truncated: true },
  };
  await proven(
    'the end in the first schema',
    given([accepted, started, old], {
      ...RECORD,
      cpu_time: 0.003,
      wall_time: null,
      stdout_truncated: true,
      stderr_truncated: true,
    }),
  );

  const later = { score: 5, tests: [], limit_exceeded: 'memory', cpu_time_us: 9 };
  const more = { ...old, facts: { ...old.facts, ...later } };
  const shown = {
    ...{ cpu_time: 0.003, wall_time: null, score: null, tests: null, limit_exceeded: null },
    ...{ stdout_truncated: true, stderr_truncated: true },
  };
  await proven(
    'facts of a later schema say nothing',
    given([accepted, started, more], { ...RECORD, ...shown }),
  );
  for (const [name, value] of Object.entries({ ...later, cpu_time: 9e-6 }))
    if (name !== 'cpu_time_us')
      await wrong(
        `a record that takes ${name} from a fact of a later schema`,
        given([accepted, started, more], { ...RECORD, ...shown, [name]: value }),
        new RegExp(`^${name}: the record says `),
      );

  const strange: Record<string, Step[]> = {
    'no end': [accepted, started],
    'no beginning': [{ ...started, version: 1 }, completed],
    'two ends': [...HONEST, completed],
    'an end of each kind': [...HONEST, failed],
    'a start after the end': [...HONEST, started],
    'a later event with another digest of the output': [
      ...HONEST,
      { ...requested, facts: { bytes: { stdout: digest('stdout', '43\n') } } },
    ],
    'a later event with another digest of the code': [
      ...HONEST,
      requested,
      { type: 'delivery.attempted', facts: { bytes: { code: digest('code', 'print(43)') } } },
    ],
    'an end with another digest of the code': [
      accepted,
      started,
      {
        ...completed,
        facts: { ...completed.facts, bytes: { ...END.bytes, code: digest('code', 'x') } },
      },
    ],
    'accepted twice': [accepted, accepted, started, completed],
    'an end before a start': [accepted, completed],
    'a delivery before the end': [accepted, started, requested, completed],
    'a loss before a start': [accepted, lost, started, completed],
    'an unknown type': [accepted, started, { type: 'moon.landed' }, completed],
    'a type that JavaScript has everywhere': [
      accepted,
      started,
      { type: 'constructor' },
      completed,
    ],
    'a type of another stream': [accepted, started, { type: 'key.revoked' }, completed],
    'an unknown schema': [accepted, started, { ...completed, schema: 3 }],
    'schema zero': [accepted, { ...started, schema: 0 }, completed],
    'a version twice': [accepted, started, { ...completed, version: 2 }],
    'a version left out': [accepted, started, { ...completed, version: 4 }],
    'another stream': [accepted, started, { ...completed, stream: STREAM.replace('18', '19') }],
  };
  for (const [name, steps] of Object.entries(strange))
    await wrong(
      name,
      { ...given(steps), receipt: { ...receiptOf(steps), openings: {} } },
      /^the events: (event \d|none of them ends)/,
    );
  for (const [name, at_us] of [
    ['infinity', 2n ** 63n - 1n],
    ['-infinity', -(2n ** 63n)],
  ] as const)
    for (const record of [null, RECORD])
      await wrong(
        `an event at ${name}`,
        given([{ ...accepted, at_us }, started, completed], record),
        /^event 1: its entry: its time is none/,
      );
});

t.test('facts that are odd', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const said = completed.facts as Record<string, unknown>;
  const given = (end: Partial<Step>, change: AnyRecord = {}) => ({
    receipt: receiptOf([accepted, started, { ...completed, ...end }]),
    record: { ...RECORD, ...change },
    policy: POLICY,
  });
  const facts = (change: object) => given({ facts: { ...said, ...change } });
  const text = JSON.stringify(said);
  await proven('as text', given({ text }));
  await proven(
    'a number with an exponent',
    given({ text: text.replace('cpu_time_us":1', 'cpu_time_us":1e0') }),
  );
  await proven('-0', given({ text: text.replace('"exit_code":0', '"exit_code":-0.0') }));
  await proven('other facts of any type', facts({ attempt: 'x', evidence: 5 }));
  await proven('no fact of a name', given({ text: text.replace('"signal":null,', '') }));
  const compile = {
    cpu_time_us: 1,
    wall_time_us: 2,
    memory_peak_bytes: 3,
    exit_code: 0,
    cached: false,
  };
  const shown = { cpu_time: 1e-6, wall_time: 2e-6, memory_peak: 3, exit_code: 0, cached: false };
  await proven('a compile', { ...facts({ compile }), record: { ...RECORD, compile: shown } });
  const limits = { cpu_ms: 1000 };
  const names = ['cpu_time', 'wall_time', 'memory', 'stack', 'output', 'processes'];
  const none = Object.fromEntries(names.map((name) => [name, null]));
  await proven('limits', {
    ...facts({ limits }),
    record: { ...RECORD, limits: { ...none, cpu_time: 1 } },
  });
  const test = {
    ...{ verdict: null, exit_code: null, signal: null, limit_exceeded: null, cpu_time_us: null },
    ...{ wall_time_us: null, memory_peak_bytes: null, score: 1e300 },
    ...{ stdout_truncated: false, stderr_truncated: false },
  };
  for (const [name, bad, change] of [
    ['a time that is true', { cpu_time_us: true }],
    ['a time that is text', { cpu_time_us: '1' }],
    ['a time that is a list', { cpu_time_us: [] }, { cpu_time: 0 }],
    ['a time that is negative', { cpu_time_us: -1 }, { cpu_time: -1e-6 }],
    ['an exit code with a fraction', { exit_code: 1.5 }, { exit_code: 1.5 }],
    ['an exit code that no double holds', { exit_code: 2 ** 53 }, { exit_code: 2 ** 53 }],
    ['a verdict of another type of event', { verdict: 'IE' }, { verdict: 'IE' }],
    ['a signal of another name', { signal: 'KILL' }, { signal: 'KILL' }],
    ['a limit that there is not', { limit_exceeded: 'moon' }, { limit_exceeded: 'moon' }],
    ['a flag that is null', { stdout_truncated: null }, { stdout_truncated: null }],
    ['a compile that is text', { compile: 'x' }],
    ['a compile without a member', { compile: { ...compile, cached: undefined } }],
    ['a compile with a member more', { compile: { ...compile, more: 1 } }, { compile: shown }],
    ['limits that are null', { limits: null }],
    ['limits that are a list', { limits: [] }, { limits: none }],
    ['a limit without a name', { limits: { '': 1 } }, { limits: none }],
    ['a score that is text', { score: '1' }, { score: '1' }],
    ['tests that are an object', { tests: {} }],
    ['a test that is null', { tests: [null] }],
    ['a test without a member', { tests: [{ ...test, score: undefined }] }],
    ['a test with a member more', { tests: [{ ...test, more: 1 }] }],
    ['bytes that are null', { bytes: null }],
    ['bytes that are a number', { bytes: 5 }],
    ['a digest that is text', { bytes: { stdout: 'x' } }],
    [
      'a digest in capitals',
      { bytes: { stdout: { ...END.bytes.stdout, sha256: END.bytes.stdout.sha256.toUpperCase() } } },
    ],
    ['a digest with a member more', { bytes: { stdout: { ...END.bytes.stdout, more: 1 } } }],
    ['a digest of an inherited name', { bytes: { ...END.bytes, constructor: END.bytes.stdout } }],
  ] as [string, object, AnyRecord?][])
    await wrong(
      name,
      { ...facts(bad), record: { ...RECORD, ...change } },
      /^the events: event 3: its fact /,
    );
  for (const bytes of [{}, 5])
    await wrong(
      `bytes of an event that has none: ${bytes}`,
      { ...given({}), receipt: receiptOf([...HONEST, { ...requested, facts: { bytes } }]) },
      /^the events: event 4: its fact bytes /,
    );
  for (const [name, bad] of [
    ['null', 'null'],
    ['a list', '[]'],
    ['text', '"x"'],
    ['no JSON', '{'],
    ['a name twice', text.replace('{', '{"verdict": "WA", ')],
    ['a name twice in an object of it', text.replace('"size":', '"size":1,"size":')],
    ['what only Python reads', text.replace('"cpu_time_us":1', '"cpu_time_us":NaN')],
    ['a number with a zero before it', text.replace('"cpu_time_us":1', '"cpu_time_us":01')],
    ['too deep', text.replace('{', `{"evidence": ${'['.repeat(1000)}${']'.repeat(1000)}, `)],
    ['not UTF-8', Buffer.from(text.replace('{', '{"evidence": "\xff", '), 'latin1')],
    ['a byte order mark', `\ufeff${text}`],
  ] as [string, string | Buffer][])
    await wrong(name, given({ text: bad }), /^event 3: its entry: /);
  await proven(
    'deep',
    given({ text: text.replace('{', `{"evidence": ${'['.repeat(999)}${']'.repeat(999)}, `) }),
  );
});

t.test('times of events', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const at = (at_us: bigint, created_at: string) => ({
    receipt: receiptOf([{ ...accepted, at_us }, started, completed]),
    record: { ...RECORD, created_at },
    policy: POLICY,
  });
  const us = (time: string) => BigInt(Date.parse(time) - Date.UTC(2000, 0)) * 1000n;
  for (const time of [
    '1970-01-01T00:00:00.000Z',
    '1999-12-31T23:59:59.999Z',
    '9999-12-31T23:59:59.999Z',
  ])
    for (const more of [0n, 1n, 999n]) await proven(`${time} + ${more}`, at(us(time) + more, time));
  for (const [time, at_us] of [
    ['1969-12-31T23:59:59.999Z', us('1970-01-01T00:00:00Z') - 1n],
    ['+010000-01-01T00:00:00.000Z', us('9999-12-31T23:59:59.999Z') + 1000n],
  ] as const)
    await wrong(time, at(at_us, time), /its time is none/);
});

t.test('files that are odd', async (t) => {
  const { proven, wrong, unusable } = bothVerifiers(t);
  const given = { receipt: receiptOf(HONEST), record: RECORD, policy: POLICY };
  const receipt = JSON.stringify(given.receipt);
  const record = JSON.stringify(RECORD);
  const bom = '\ufeff';
  await proven('a byte order mark', given, {
    ...{ receipt: bom + receipt, record: bom + record, policy: bom + POLICY },
  });
  await proven('no line feed at the end', given, { policy: POLICY.trimEnd() });
  await proven('-0 in a record', given, {
    record: record.replace('"exit_code":0', '"exit_code":-0'),
  });
  await proven('other fields', given, { receipt: receipt.replace('{', '{"more": {}, ') });
  const digits = record.replace('"memory_peak":7', '"memory_peak":7.0000000000000000001');
  await proven('digits that a double does not have', given, { record: digits });
  const wide = {
    ...given,
    receipt: receiptOf([
      accepted,
      started,
      { ...completed, facts: { ...completed.facts, memory_peak_bytes: 2 ** 53 - 1 } },
    ]),
  };
  await wrong('a number that rounds to another', wide, /memory_peak/, {
    record: record.replace('"memory_peak":7', '"memory_peak":9007199254740993'),
  });
  const index = (to: string) => ({ receipt: receipt.replace('"index":1', `"index":${to}`) });
  await proven('an index with an exponent', given, index('1e0'));
  for (const to of ['-1', '1.5', '1e400']) await wrong(`index ${to}`, given, /index/, index(to));
  const twice = (text: string) => text.replace('{', '{"status": 1, "status": 1, ');
  const deep = (text: string) =>
    text.replace('{', `{"deep": ${'['.repeat(1000)}${']'.repeat(1000)}, `);
  const nan = (text: string) => text.replace('{', '{"more": NaN, ');
  const latin1 = (text: string) => Buffer.from(text.replace('{', '{"more": "\xff", '), 'latin1');
  for (const [name, change] of Object.entries({ twice, deep, nan, latin1 })) {
    await unusable(`receipt: ${name}`, given, { receipt: change(receipt) });
    if (name !== 'latin1')
      await unusable(`record: ${name}`, given, { record: change(record) as string });
  }
  for (const [name, bad] of [
    ['index as text', index('"1"')],
    ['index null', index('null')],
    ['no events', { receipt: receipt.replace('"events"', '"others"') }],
    ['no openings', { receipt: receipt.replace('"openings"', '"others"') }],
    ['an opening without a salt', { receipt: receipt.replace('"salt"', '"other"') }],
    ['a policy that is not UTF-8', { policy: Buffer.from(`# \xff\n${POLICY}`, 'latin1') }],
    ['a policy with carriage returns', { policy: POLICY.replaceAll('\n', '\r\n') }],
    ['a key with a control character', { policy: POLICY.replace('w.example', 'w\u0085example') }],
    ['a key with a byte order mark', { policy: POLICY.replace(' w.example', ' w\ufeffexample') }],
    ['a member twice', { policy: POLICY.replace('quorum w', 'group g any w w\nquorum g') }],
    ['a group without members', { policy: POLICY.replace('quorum w', 'group g any\nquorum g') }],
    ['a zero before a number', { policy: POLICY.replace('quorum w', 'group g 01 w\nquorum g') }],
    ['a record that is a list', { record: '[]' }],
  ] as const)
    await unusable(name, given, bad);
  await wrong('a policy without a log', given, /has no log/, {
    policy: POLICY.replace(logLine, ''),
  });
});

t.test('checkpoints that are odd', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const given = (sign: (text: string) => NoteSignature[], more = '') => ({
    receipt: signedReceipts([HONEST], sign, more)[0]!,
    record: RECORD,
    policy: POLICY,
  });
  const both = (text: string) => [log.sign(text), witness.sign(text)];
  const most = 2 ** 53 - 1;
  await proven(
    'the last time',
    given((text) => [log.sign(text), witness.sign(text, most)]),
  );
  await wrong(
    'a time after it',
    given((text) => [log.sign(text), witness.sign(text, most + 1)]),
  );
  const others =
    (count: number, name = 'x') =>
    (text: string) => [
      ...both(text),
      ...Array.from({ length: count }, () => ({ name, id: '00000000', bytes: Buffer.alloc(64) })),
    ];
  await proven('64 signatures', given(others(62)));
  await wrong('65 signatures', given(others(63)));
  await wrong('over 64 KiB', given(others(1, 'x'.repeat(65_536))));
  await wrong('a name with a plus', given(others(1, 'x+y')));
  await wrong('a name with a byte order mark', given(others(1, 'x\ufeffy')));
  const short = (text: string) => [
    ...both(text),
    { name: 'x', id: '00000000', bytes: Buffer.alloc(0) },
  ];
  await wrong('a signature without bytes', given(short));
  await proven('a further line', given(both, '\ufffd\n'));
  const half = structuredClone(given(both, '\ufffd\n'));
  for (const event of half.receipt.events) event.proof = event.proof.replace('\ufffd', '\ud800');
  await wrong('half a surrogate pair', half);
});

t.test('every manipulation is found by both verifiers', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const elsewhere = STREAM.replace('18', '19');
  const [receipt, others] = receiptsOf(
    HONEST,
    HONEST.map((step) => ({ ...step, stream: elsewhere })),
  );
  const size = 13;
  const given = {
    receipt: receipt!,
    record: { ...RECORD, proof: { index: 5, checkpoint: size } },
    policy: POLICY,
  };
  const other = {
    ...given,
    receipt: others!,
    record: { ...RECORD, id: elsewhere, proof: { index: 11, checkpoint: size } },
  };
  await proven('as it is', given);
  await proven('the other one', other);
  for (const [name, change] of [...MANIPULATIONS, ...recordManipulations(RECORD)]) {
    const changed = structuredClone(given);
    change(changed, structuredClone(other));
    await wrong(name, changed);
  }
});

/** A message that an escape looks like, and outputs that are no text. */
const OUTCOMES = [
  {
    ...notRun({ n: 1, name: 'é"\\u0000', group: 'data/secret' }),
    ...{ verdict: 'AC', exit_code: 0, cpu_time_us: 3, wall_time_us: 4, memory_peak_bytes: 5 },
    ...{ score: 2.5, message: 'a\n\t\0b', stdout: Buffer.from('1\n') },
  } as TestOutcome,
  notRun({ n: 2, name: '2', group: '' }),
];
const FILES = [{ path: 'out/"é".png', bytes: Uint8Array.of(0, 255, 10) }];

t.test('a record of a submission that was judged', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const given = (
    type: string,
    tests: readonly TestOutcome[],
    change: AnyRecord = {},
    more: AnyRecord = {},
  ) => {
    const payloads = { tests: packTests(tests), files: packFiles(FILES), transcript: '> 1\n' };
    const bytes = Object.fromEntries(
      Object.entries(payloads).map(([kind, each]) => [kind, digest(kind as Kind, each)]),
    );
    const facts = { ...completed.facts, tests: factsOf(tests), score: 2.5, ...more };
    const end = { type, schema: type === 'submission.failed' ? 1 : 2 };
    const steps = [
      accepted,
      started,
      { ...end, facts: { ...facts, bytes: { ...END.bytes, ...bytes } } },
    ];
    const record = {
      ...RECORD,
      ...{ tests: renderTests(factsOf(tests), payloads.tests, textOf), score: 2.5 },
      ...{ files: renderFiles(payloads.files), transcript: '> 1\n' },
      ...change,
    };
    const receipt = { ...receiptOf(steps), openings: openings(Object.keys(SALTS) as Kind[]) };
    return { receipt, record, policy: POLICY };
  };
  const honest = given('submission.completed', OUTCOMES);
  await proven('as it is', honest);
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const exact = (tests: readonly TestOutcome[]) =>
    renderTests(factsOf(tests), packTests(tests), base64);
  const no_text = OUTCOMES.with(1, { ...OUTCOMES[1]!, stdout: Uint8Array.of(0xff) });
  await proven(
    'outputs as base64',
    given('submission.completed', no_text, { ...EXACT, tests: exact(no_text) }),
  );
  for (const output of ['stdout', 'transcript'] as const)
    await wrong(
      `${output} as text beside tests in base64`,
      given('submission.completed', no_text, {
        ...{ ...EXACT, tests: exact(no_text) },
        [output]: { stdout: '42\n', transcript: '> 1\n' }[output],
      }),
      new RegExp(`^${output}: `, 'm'),
    );
  await wrong(
    'an output in base64 beside tests as text',
    given('submission.completed', OUTCOMES, { stdout: EXACT.stdout }),
    /^stdout: it has 4 bytes, and the log says 3$/m,
  );
  await wrong('outputs that are no text', given('submission.completed', no_text), /^tests: /m);
  const purged = {
    tests: renderTests(factsOf(OUTCOMES), null, textOf),
    files: null,
    transcript: null,
  };
  await proven('after a purge', given('submission.completed', OUTCOMES, purged));
  const mixed = (change: (tests: AnyRecord[]) => void) => {
    const changed = structuredClone(honest);
    change(changed.record.tests as AnyRecord[]);
    return changed;
  };
  for (const text of ['name', 'group', 'stdout', 'stderr'])
    await wrong(
      `a null ${text} of one test does not hide what is said of another`,
      mixed((tests) => {
        tests[1]![text] = null;
        Object.assign(tests[0]!, { name: 'another', message: 'forged', stdout: 'forged' });
      }),
      /^tests: /m,
    );
  const after_purge = given('submission.completed', OUTCOMES, purged);
  for (const text of ['name', 'group', 'message', 'stdout', 'stderr']) {
    const changed = structuredClone(after_purge);
    (changed.record.tests as unknown as AnyRecord[])[0]![text] = 'forged';
    await wrong(`a purge that leaves one ${text}`, changed, /^tests: /m);
  }
  const silent = OUTCOMES.map((each) => ({ ...each, message: null }));
  await proven('no messages', given('submission.completed', silent));
  await proven('no messages, after a purge', given('submission.completed', silent, purged));
  const in_base64 = given('submission.completed', OUTCOMES, {
    ...{ ...EXACT, tests: exact(OUTCOMES) },
  });
  await proven('all outputs as base64', in_base64);
  for (const forged of ['MQo=forged', 'MQo', 'M Q o =']) {
    const changed = structuredClone(in_base64);
    (changed.record.tests as unknown as AnyRecord[])[0]!['stdout'] = forged;
    await wrong(`base64 with text behind it: ${forged}`, changed, /^tests: /m);
  }
  const nothing = Object.fromEntries(
    ['exit_code', 'signal', 'cpu_time', 'wall_time', 'memory_peak', 'score'].map((name) => [
      name,
      null,
    ]),
  );
  const ended = { ...nothing, status: 'error', verdict: 'IE' };
  await proven('a failure, with the tests', given('submission.failed', OUTCOMES, ended));
  for (const name of ['stdout_truncated', 'stderr_truncated']) {
    const cut = { ...ended, [name]: true };
    const facts = { [name]: true };
    await proven(`a failure with ${name}`, given('submission.failed', OUTCOMES, cut, facts));
    await wrong(
      `a failure that hides ${name}`,
      given('submission.failed', OUTCOMES, ended, facts),
      new RegExp(`^${name}: the record says `),
    );
  }
  for (const [name, change] of recordManipulations(honest.record)) {
    const changed = structuredClone(honest);
    change(changed, structuredClone(honest));
    await wrong(name, changed);
  }
  for (const [n, test] of (honest.record.tests as object[]).entries())
    for (const [name, change] of recordManipulations(test)) {
      const changed = structuredClone(honest);
      const holder: Case = { ...changed, record: changed.record.tests![n]! };
      change(holder, holder);
      (changed.record.tests as unknown[])[n] = holder.record;
      await wrong(`test ${n + 1}, ${name}`, changed);
    }
  const [file] = honest.record.files!;
  for (const content_base64 of [{ toString: 0 }, null, 1, []])
    await wrong(
      `a file that is ${JSON.stringify(content_base64)}`,
      { ...honest, record: { ...honest.record, files: [{ ...file, content_base64 }] } },
      /^files: /m,
    );
  for (const test of ['ab', null, 1, true])
    await wrong(
      `a test that is ${JSON.stringify(test)}`,
      { ...honest, record: { ...honest.record, tests: [test] } },
      /^tests: /m,
    );
  t.same(withoutTexts(['ab']), ['ab'], 'a text is not taken apart, however long it is');
  for (const [name, change] of recordManipulations(file!)) {
    const holder: Case = { ...structuredClone(honest), record: { ...file } };
    change(holder, holder);
    await wrong(`file, ${name}`, {
      ...honest,
      record: { ...honest.record, files: [holder.record] },
    });
  }
});

t.test('policies', async (t) => {
  const { proven, wrong } = bothVerifiers(t);
  const given = (policy: string) => ({ receipt: receiptOf(HONEST), record: RECORD, policy });
  const absent = (name: string) =>
    `witness ${name} ${keyText(new NoteSigner(name, WITNESS_KEY, Buffer.from(name.padEnd(32))).verifier)}\n`;
  const all = POLICY.replace(/quorum.*\n/, '') + absent('a') + absent('b');
  await proven('no quorum', given(`${logLine}quorum none\n`));
  await proven('one of three', given(`${all}group g any w a b\nquorum g\n`));
  await proven('a group in a group', given(`${all}group g any w a\ngroup h 1 g b\nquorum h\n`));
  await wrong('two of three', given(`${all}group g 2 w a b\nquorum g\n`), /too few witnesses/);
  await wrong('all of two', given(`${all}group g all w a\nquorum g\n`), /too few witnesses/);
  await wrong('another witness', given(`${all}quorum a\n`), /too few witnesses/);
  const elsewhere = new NoteSigner('example.org/log', LOG_KEY, Buffer.alloc(32, 9));
  await wrong(
    'another key of that name',
    given(`log ${keyText(elsewhere.verifier)}\nquorum none\n`),
  );
});

t.test('what is said', async (t) => {
  const receipt = parseReceipt(JSON.stringify(receiptOf(HONEST)));
  const policy = parsePolicy(POLICY);
  const proven = checkReceipt(receipt, { policy, record: RECORD });
  t.equal(proven.verdict, 'proven');
  t.match(
    proven.checked.join('\n'),
    /^3 events are in the tree of example\.org\/log with 7 leaves$/m,
  );
  t.match(proven.checked.join('\n'), /cosigned by w \(20\d\d-.*\): the policy accepts it/);
  t.match(proven.checked.join('\n'), /the record: id, status, .*, proof$/m);
  t.same(proven.unchecked, ['bytes that were not given: code']);

  const alone = checkReceipt(receipt, { policy: null, record: null });
  t.equal(alone.verdict, 'consistent');
  t.notMatch(alone.checked.join('\n'), /proven|signed/);
  t.match(alone.unchecked, [/signatures/, /a record/, /code, stdout/]);

  const bytes = { code: Buffer.from('print(42)'), stdin: Buffer.alloc(0) };
  t.equal(checkReceipt(receipt, { policy, record: RECORD, bytes }).verdict, 'proven');
  t.same(checkReceipt(receipt, { policy, record: RECORD, bytes }).unchecked, []);
  for (const [kind, wrong] of Object.entries({ code: 'print(43)', stdin: 'x', args: '[]' })) {
    const found = checkReceipt(receipt, {
      policy,
      record: null,
      bytes: { [kind]: Buffer.from(wrong) },
    });
    t.equal(found.verdict, 'wrong', kind);
  }

  const several = checkReceipt(receipt, {
    policy,
    record: { ...RECORD, verdict: 'WA', attempts: 2 },
  });
  t.equal(several.problems.length, 2, 'every problem is named');
  const invalid = { ...RECORD, stdout: '\ufffd' };
  t.match(checkReceipt(receipt, { policy, record: invalid }).problems, [/stdout/]);
});

t.test('files that are no receipts', async (t) => {
  const { events, openings } = receiptOf(HONEST);
  const [one] = events;
  for (const bad of [
    '',
    '{',
    'null',
    '[]',
    '{}',
    JSON.stringify({ events }),
    JSON.stringify({ events: [], openings }),
    JSON.stringify({ events: [{ ...one, index: '1' }], openings }),
    JSON.stringify({ events: [{ ...one, entry: null }], openings }),
    JSON.stringify({ events: [null], openings }),
    JSON.stringify({ events, openings: { code: 'AAAA' } }),
  ])
    throwsA(t, NoReceipt, () => parseReceipt(bad), bad.slice(0, 40));
});
