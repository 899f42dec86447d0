/** What a policy accepts, with real signatures; and the lines that make a file no policy. */
import t from 'tap';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { EMPTY_ROOT } from '../../src/proof/merkle.ts';
import { keyText, LOG_KEY, NoteSigner, verifierKey, WITNESS_KEY } from '../../src/proof/note.ts';
import {
  BadPolicy,
  judgeCheckpoint,
  type Policy,
  parsePolicy,
  policyFor,
  policyText,
  quorumAt,
} from '../../src/proof/policy.ts';
import { throwsA } from './throws.ts';

const log = new NoteSigner('example.org/log', LOG_KEY, Buffer.alloc(32, 1));
const names = ['A', 'B', 'C'] as const;
const witnesses = names.map(
  (name, n) => new NoteSigner(`${name}.example.org`, WITNESS_KEY, Buffer.alloc(32, 10 + n)),
);
const [a, b, c] = witnesses.map(({ verifier }) => keyText(verifier));
const L = keyText(log.verifier);
const text = checkpointText({ origin: 'example.org/log', size: 1, root: EMPTY_ROOT });
const signedBy = (...signers: NoteSigner[]) => ({
  text,
  signatures: signers.map((each) => each.sign(text)),
});
const [A, B, C] = witnesses as [NoteSigner, NoteSigner, NoteSigner];

t.test('quorums', async (t) => {
  const all = `log ${L} https://log.example.org\nwitness A ${a}\nwitness B ${b} https://b.example.org\n# a comment\n\nwitness C ${c}\n`;
  const cases: [string, NoteSigner[], boolean][] = [
    ['quorum none', [], true],
    ['quorum A', [], false],
    ['quorum A', [B], false],
    ['quorum A', [A], true],
    ['group G 2 A B C\nquorum G', [A], false],
    ['group G 2 A B C\nquorum G', [A, C], true],
    ['group G any A B C\nquorum G', [C], true],
    ['group G all A B C\nquorum G', [A, C], false],
    ['group G all A B C\nquorum G', [A, B, C], true],
    ['group G any A B\ngroup H all G C\nquorum H', [A, B], false],
    ['group G any A B\ngroup H all G C\nquorum H', [B, C], true],
  ];
  for (const [lines, cosigners, accepted] of cases) {
    const policy = parsePolicy(all + lines);
    const judged = judgeCheckpoint(policy, signedBy(log, ...cosigners));
    t.equal(
      judged.problem === null,
      accepted,
      `${lines} by ${cosigners.length}: ${judged.problem}`,
    );
    t.same(judged.cosigned.length, cosigners.length);
    t.same(parsePolicy(policyText(policy, ['of a test'])), policy, 'its text is the same policy');
  }
});

t.test('fewer witnesses than the quorum do not say when a checkpoint was cosigned', async (t) => {
  const keys = `log ${L}\nwitness A ${a}\nwitness B ${b}\nwitness C ${c}\n`;
  const none = Number.MAX_SAFE_INTEGER;
  const cases: [string, (readonly [NoteSigner, number])[], number | null][] = [
    ['quorum none', [], null],
    [
      'quorum none',
      [
        [A, 300],
        [B, 200],
      ],
      200,
    ],
    [
      'quorum A',
      [
        [A, 300],
        [B, 100],
      ],
      300,
    ],
    [
      'group G 2 A B C\nquorum G',
      [
        [A, 100],
        [B, 300],
        [C, 200],
      ],
      200,
    ],
    [
      'group G any A B C\nquorum G',
      [
        [A, 300],
        [B, 200],
      ],
      200,
    ],
    [
      'group G all A B\nquorum G',
      [
        [C, 400],
        [B, 300],
        [A, 200],
      ],
      300,
    ],
    [
      'group G any A B\ngroup H all G C\nquorum H',
      [
        [A, 100],
        [B, 200],
        [C, 300],
      ],
      300,
    ],
    [
      'group G 2 A B C\nquorum G',
      [
        [A, none],
        [B, 300],
        [C, 200],
      ],
      300,
    ],
    [
      'group G 2 A B C\nquorum G',
      [
        [A, none],
        [B, 300],
      ],
      Number.NaN,
    ],
  ];
  for (const [lines, cosigners, at_s] of cases) {
    const policy = parsePolicy(keys + lines);
    const signatures = cosigners.map(([signer, seconds]) => signer.sign(text, seconds));
    const judged = judgeCheckpoint(policy, { text, signatures: [log.sign(text), ...signatures] });
    t.equal(judged.problem, null);
    const at = quorumAt(policy, judged.cosigned)?.getTime() ?? null;
    t.same(at, at_s && at_s * 1000, lines);
  }
});

t.test('what no policy accepts', async (t) => {
  const policy = parsePolicy(`log ${L}\nwitness A ${a}\nquorum none`);
  t.match(judgeCheckpoint(policy, signedBy(A)).problem, /not signed by the log/);
  const wrong = { ...log.sign('another text\n') };
  t.match(judgeCheckpoint(policy, { text, signatures: [wrong] }).problem, /not of this checkpoint/);
  const spoiled = { ...signedBy(log, A), text };
  spoiled.signatures[1]!.bytes[20]! ^= 1;
  t.match(judgeCheckpoint(policy, spoiled).problem, /not of this checkpoint/);
  const elsewhere = new NoteSigner('example.org/other', LOG_KEY, Buffer.alloc(32, 1));
  const other = text.replace('example.org/log', 'example.org/other');
  t.match(
    judgeCheckpoint(policy, { text: other, signatures: [elsewhere.sign(other)] }).problem,
    /has no log/,
  );
});

/** Keys of one name whose ids, the first 32 bits of a digest, are the same. */
const [alike, like] = [72_638, 141_495].map((n) => {
  const seed = Buffer.alloc(32);
  seed.writeUInt32BE(n);
  return new NoteSigner('A.example.org', WITNESS_KEY, seed).verifier;
});

t.test('lines that are no policy', async (t) => {
  t.equal(alike!.id, like!.id);
  const head = `log ${L}\nwitness A ${a}\nwitness B ${b}\n`;
  for (const bad of [
    `witness D ${keyText(alike!)}\nwitness E ${keyText(like!)}\nquorum none`,
    '',
    'quorum',
    'quorum none\nquorum none',
    'quorum X',
    `log ${a}\nquorum none`,
    `log ${L}\nlog ${L}\nquorum none`,
    `witness A ${L}\nquorum none`,
    `witness none ${a}\nquorum none`,
    `witness A ${a}\nwitness A ${b}\nquorum none`,
    `witness A ${a}\nwitness B ${a}\nquorum none`,
    `${head}group G 3 A B\nquorum G`,
    `${head}group G 0 A B\nquorum G`,
    `${head}group G any\nquorum G`,
    `${head}group G any A\ngroup H any A\nquorum H`,
    `${head}group G any H\nquorum G`,
    `${head}group A any B\nquorum A`,
    'verifier x\nquorum none',
    'quorum none\u0007',
  ])
    throwsA(t, BadPolicy, () => parsePolicy(bad), bad.slice(-40));
});

t.test('the policy of an installation: each key once, and all witnesses', async (t) => {
  const keys = ['new', 'old'].map((name) => verifierKey(name, LOG_KEY, Buffer.alloc(32, 1)));
  const other = verifierKey('old', LOG_KEY, Buffer.alloc(32, 2));
  const logs = (policy: Policy) => policy.logs.map(({ key }) => keyText(key));
  const alone = parsePolicy(policyText(policyFor([...keys, other], [])));
  t.same(logs(alone), [keyText(keys[0]!), keyText(other)]);
  t.equal(alone.quorum, 'none');
  const witness = (n: number) => {
    const name = `w${n}`;
    return { name, key: verifierKey(name, WITNESS_KEY, Buffer.alloc(32, n)), url: 'https://w' };
  };
  t.equal(policyFor(keys, [witness(1)]).quorum, 'w1');
  const two = parsePolicy(policyText(policyFor(keys, [witness(1), witness(2)])));
  t.same(two.groups, [{ name: 'witnesses', least: 2, members: ['w1', 'w2'] }]);
  t.equal(two.quorum, 'witnesses');
  const named = (name: string, n: number) => ({
    ...witness(n),
    key: verifierKey(name, WITNESS_KEY, Buffer.alloc(32, n)),
  });
  const names = ['w', 'w', 'none', 'witnesses', 'w-2'];
  const clashing = parsePolicy(policyText(policyFor(keys, names.map(named))));
  t.same(
    clashing.witnesses.map(({ name }) => name),
    ['w', 'w-2', 'none-2', 'witnesses-2', 'w-2-2'],
  );
});
