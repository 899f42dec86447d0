/** Golden vectors, computed once by another program from the table in AUDIT.md. If one fails, old seals no longer verify. */
import t from 'tap';
import {
  createSigner,
  eventBytes,
  type Head,
  headText,
  isSignedBy,
  leafOf,
  NO_HASH,
  sealHash,
  sha256,
} from '../../src/domain/seal_chain.ts';
import { EVENT } from './golden.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const SECOND = {
  ...EVENT,
  version: 2,
  type: 'execution.started',
  seq: 8n,
  facts: '{"attempt": 1}',
};
const PART = '59ec682ede162895de578b09ef90b7c213e45b68986a97c7d3674d9108885b86';
const SEAL = '4ac0d1e36198ed6078b8d887644f78d654e88c7e3d46aa95fd29d6952391ebbd';
const WINDOW = { number: 1n, generation: 1, from_xid: 0n, to_xid: 4_294_967_300n };
const PARTS = [
  { partition: 'events_2022_02', count: 2n, hash: Buffer.from(PART, 'hex') },
  { partition: 'events_permanent', count: 1n, hash: sha256('x') },
];
const HEAD: Head = {
  number: 1n,
  total: 3n,
  generation: 1,
  to_xid: 4_294_967_300n,
  hash: Buffer.from(SEAL, 'hex'),
  sketch_sha256: sha256('sketch'),
  sealed_at: new Date('2026-11-20T12:00:00Z'),
};

t.test('an event, its leaf, a part, a seal', async (t) => {
  t.equal(
    hex(eventBytes(EVENT)),
    '017f22e279b07cc398c4dc0c0c07398f00000001000000137375626d697373696f6e2e6163636570746564000100030376670df240000100000001000000000000000000000007000000167b2261223a20312c20226262223a2022c3a95c6e227d',
  );
  t.equal(hex(leafOf(EVENT)), 'fa8644eca84ae1c8ada07fdfc7aa46af19fdde3e124dbf6061cbecc6ed82c5da');
  t.equal(hex(sha256(leafOf(EVENT), leafOf(SECOND))), PART);
  t.equal(hex(sealHash(NO_HASH, WINDOW, PARTS)), SEAL);
});

t.test('a head and its signature; the key is the first of RFC 8032', async (t) => {
  t.equal(
    headText(HEAD),
    `runledger head 1
number 1
total 3
generation 1
to_xid 4294967300
hash ${SEAL}
sketch f416b363c6c5f07011f5dc463a2395873ee035f0f8bea3e585297ec65052c737
sealed_at 2026-11-20T12:00:00.000Z
`,
  );
  const seed = '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60';
  const signer = createSigner(Buffer.from(seed, 'hex'));
  t.equal(signer.name, '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=');
  const signature = signer.sign(HEAD);
  t.equal(
    signature.toString('base64'),
    'hdwk2FXcgrQXaB35BEN2UT7mDBNEn5pa/KCbDAx0ceCQB34/JdC0ynJjUdW6s4ii3YCQAubu0aMfBv95lKnRAg==',
  );
  t.ok(isSignedBy(signer.name, HEAD, signature));
  t.notOk(isSignedBy(signer.name, { ...HEAD, total: 4n }, signature));
  t.notOk(isSignedBy(createSigner(Buffer.alloc(32)).name, HEAD, signature));
  t.notOk(isSignedBy('no key', HEAD, signature));
});

t.test('a seal covers its window, its number and each of its parts', async (t) => {
  const [first, second] = PARTS;
  const others = [
    sealHash(sha256('another'), WINDOW, PARTS),
    sealHash(NO_HASH, { ...WINDOW, number: 2n }, PARTS),
    sealHash(NO_HASH, { ...WINDOW, generation: 2 }, PARTS),
    sealHash(NO_HASH, { ...WINDOW, from_xid: 1n }, PARTS),
    sealHash(NO_HASH, { ...WINDOW, to_xid: 1n }, PARTS),
    sealHash(NO_HASH, WINDOW, [first!]),
    sealHash(NO_HASH, WINDOW, [first!, { ...second!, count: 2n }]),
    sealHash(NO_HASH, WINDOW, [first!, { ...second!, partition: 'events_2022_03' }]),
    sealHash(NO_HASH, WINDOW, [first!, { ...second!, hash: sha256('y') }]),
  ].map(hex);
  t.notOk(others.includes(SEAL));
  t.equal(new Set(others).size, others.length);
});
