import { randomBytes } from 'node:crypto';
import t from 'tap';
import {
  decryptSecret,
  type EncryptedSecret,
  type EncryptionKey,
  encryptSecret,
} from '../../src/webhooks/encrypt_secret.ts';

const ID = '01970000-0000-7000-8000-00000000000a';
const OTHER = '01970000-0000-7000-8000-00000000000b';
const key = (id: string): EncryptionKey => ({ id, bytes: randomBytes(32) });
const first = key('k1');
const second = key('k2');

t.test(
  'an encrypted secret decrypts to itself, and its ciphertext does not contain it',
  async (t) => {
    const secrets = ['s', 'a webhook secret', 'ü€😀\u0000', 'x'.repeat(256)];
    for (const secret of secrets) {
      const encrypted = encryptSecret([first], ID, secret);
      t.equal(encrypted.key_id, 'k1');
      t.equal(encrypted.nonce.length, 12);
      t.equal(encrypted.ciphertext.length, Buffer.byteLength(secret) + 16);
      t.notOk(secret.length > 1 && Buffer.from(encrypted.ciphertext).includes(secret));
      t.same(decryptSecret([first], ID, encrypted), { kind: 'decrypted', secret });
    }
  },
);

t.test('the same secret encrypted twice gives two ciphertexts', async (t) => {
  const [one, two] = [encryptSecret([first], ID, 'same'), encryptSecret([first], ID, 'same')];
  t.notSame(one.nonce, two.nonce);
  t.notSame(one.ciphertext, two.ciphertext);
});

t.test(
  'rotation: the first key encrypts, every key decrypts, and a missing key is named',
  async (t) => {
    const old = encryptSecret([first], ID, 'before');
    const rotated = [second, first];
    t.equal(encryptSecret(rotated, ID, 'after').key_id, 'k2');
    t.same(decryptSecret(rotated, ID, old), { kind: 'decrypted', secret: 'before' });
    t.same(decryptSecret(rotated, ID, encryptSecret(rotated, ID, 'after')), {
      kind: 'decrypted',
      secret: 'after',
    });
    t.same(decryptSecret([second], ID, old), { kind: 'key_missing', key_id: 'k1' });
  },
);

t.test('another key with the same id does not decrypt', async (t) => {
  const encrypted = encryptSecret([first], ID, 'secret');
  t.same(decryptSecret([key('k1')], ID, encrypted), { kind: 'damaged', key_id: 'k1' });
});

t.test('an encrypted secret cannot be used for another submission', async (t) => {
  const encrypted = encryptSecret([first], ID, 'secret');
  t.same(decryptSecret([first], OTHER, encrypted), { kind: 'damaged', key_id: 'k1' });
  t.same(decryptSecret([first], ID.toUpperCase(), encrypted), {
    kind: 'decrypted',
    secret: 'secret',
  });
});

t.test('every changed byte and every truncation is detected', async (t) => {
  const encrypted = encryptSecret([first], ID, 'secret');
  const damaged = (over: Partial<EncryptedSecret>) =>
    decryptSecret([first], ID, { ...encrypted, ...over });
  for (const field of ['nonce', 'ciphertext'] as const) {
    for (let at = 0; at < encrypted[field].length; at += 1) {
      const bytes = Uint8Array.from(encrypted[field]);
      bytes[at]! ^= 1;
      t.same(damaged({ [field]: bytes }), { kind: 'damaged', key_id: 'k1' }, `${field} byte ${at}`);
      const cut = encrypted[field].subarray(0, at);
      t.same(damaged({ [field]: cut }), { kind: 'damaged', key_id: 'k1' }, `${field} cut to ${at}`);
    }
  }
});

t.test('without a key, encrypting fails and the error names the variable to set', async (t) => {
  t.throws(() => encryptSecret([], ID, 'secret'), /RUNLEDGER_WEBHOOK_KEYS/);
});
