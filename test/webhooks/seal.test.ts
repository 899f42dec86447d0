import { randomBytes } from 'node:crypto';
import t from 'tap';
import {
  openSecret,
  type SealedSecret,
  type SealKey,
  sealSecret,
} from '../../src/webhooks/seal.ts';

const ID = '01970000-0000-7000-8000-00000000000a';
const OTHER = '01970000-0000-7000-8000-00000000000b';
const key = (id: string): SealKey => ({ id, bytes: randomBytes(32) });
const first = key('k1');
const second = key('k2');

t.test('what is sealed opens again, and shows nothing of itself', async (t) => {
  const secrets = ['s', 'a webhook secret', 'ü€😀\u0000', 'x'.repeat(256)];
  for (const secret of secrets) {
    const sealed = sealSecret([first], ID, secret);
    t.equal(sealed.key_id, 'k1');
    t.equal(sealed.nonce.length, 12);
    t.equal(sealed.ciphertext.length, Buffer.byteLength(secret) + 16);
    t.notOk(secret.length > 1 && Buffer.from(sealed.ciphertext).includes(secret));
    t.same(openSecret([first], ID, sealed), { kind: 'opened', secret });
  }
});

t.test('one secret sealed twice looks different', async (t) => {
  const [one, two] = [sealSecret([first], ID, 'same'), sealSecret([first], ID, 'same')];
  t.notSame(one.nonce, two.nonce);
  t.notSame(one.ciphertext, two.ciphertext);
});

t.test('rotation: the first key seals, all keys open, a removed key is named', async (t) => {
  const old = sealSecret([first], ID, 'before');
  const rotated = [second, first];
  t.equal(sealSecret(rotated, ID, 'after').key_id, 'k2');
  t.same(openSecret(rotated, ID, old), { kind: 'opened', secret: 'before' });
  t.same(openSecret(rotated, ID, sealSecret(rotated, ID, 'after')), {
    kind: 'opened',
    secret: 'after',
  });
  t.same(openSecret([second], ID, old), { kind: 'key_missing', key_id: 'k1' });
});

t.test('another key under the same id does not open', async (t) => {
  const sealed = sealSecret([first], ID, 'secret');
  t.same(openSecret([key('k1')], ID, sealed), { kind: 'damaged', key_id: 'k1' });
});

t.test('a sealed secret is bound to its submission', async (t) => {
  const sealed = sealSecret([first], ID, 'secret');
  t.same(openSecret([first], OTHER, sealed), { kind: 'damaged', key_id: 'k1' });
  t.same(openSecret([first], ID.toUpperCase(), sealed), { kind: 'opened', secret: 'secret' });
});

t.test('each changed byte and each cut is found', async (t) => {
  const sealed = sealSecret([first], ID, 'secret');
  const damaged = (over: Partial<SealedSecret>) => openSecret([first], ID, { ...sealed, ...over });
  for (const field of ['nonce', 'ciphertext'] as const) {
    for (let at = 0; at < sealed[field].length; at += 1) {
      const bytes = Uint8Array.from(sealed[field]);
      bytes[at]! ^= 1;
      t.same(damaged({ [field]: bytes }), { kind: 'damaged', key_id: 'k1' }, `${field} byte ${at}`);
      const cut = sealed[field].subarray(0, at);
      t.same(damaged({ [field]: cut }), { kind: 'damaged', key_id: 'k1' }, `${field} cut to ${at}`);
    }
  }
});

t.test('without a key nothing is sealed, and the error says what to set', async (t) => {
  t.throws(() => sealSecret([], ID, 'secret'), /RUNLEDGER_WEBHOOK_KEYS/);
});
