/** Canonical bytes: a golden vector that was written by hand from the table in AUDIT.md, and bytes that are no entry. */
import t from 'tap';
import { BadEntry, entryOf, parseEntry } from '../../src/proof/entry.ts';
import { throwsA } from './throws.ts';

const EVENT = {
  stream: '01890a5d-ac96-774b-bcce-b302099a8057',
  version: 2,
  type: 'execution.started',
  schema: 1,
  at_us: 751_000_000_000_001n,
  generation: 1,
  xid: 4_294_967_299n,
  seq: 8n,
  facts: '{"attempt": 1, "näme": "ü"}',
};
const GOLDEN = [
  '0009',
  '00000010',
  '01890a5dac96774bbcceb302099a8057',
  '00000004',
  '00000002',
  '00000011',
  '657865637574696f6e2e73746172746564',
  '00000002',
  '0001',
  '00000008',
  '0002ab07d039f001',
  '00000002',
  '0001',
  '00000008',
  '0000000100000003',
  '00000008',
  '0000000000000008',
  '0000001e',
  '017b22617474656d7074223a20312c20226ec3a46d65223a2022c3bc227d',
].join('');

t.test('the canonical bytes of an event', async (t) => {
  t.equal(entryOf(EVENT).toString('hex'), GOLDEN);
  t.same(parseEntry(Buffer.from(GOLDEN, 'hex')), EVENT);
});

t.test('bytes that are no entry', async (t) => {
  const good = Buffer.from(GOLDEN, 'hex');
  throwsA(t, BadEntry, () => parseEntry(Buffer.concat([good, Buffer.of(0)])));
  for (let length = 0; length < good.length; length++)
    throwsA(t, BadEntry, () => parseEntry(good.subarray(0, length)), `cut at ${length}`);
  const changed = (at: number, byte: number) =>
    Buffer.from(good.map((old, n) => (n === at ? byte : old)));
  throwsA(t, BadEntry, () => parseEntry(changed(1, 8)), 'eight columns');
  throwsA(t, BadEntry, () => parseEntry(changed(2, 255)), 'a null');
  throwsA(t, BadEntry, () => parseEntry(changed(good.length - 30, 2)), 'another version of jsonb');
});
