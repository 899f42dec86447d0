import { createHash } from 'node:crypto';
import t from 'tap';
import { isWellFormed, newSecret, secretDigest } from '../../src/access/secret.ts';

t.test('a secret has its prefix, 30 random characters and 6 characters of checksum', async (t) => {
  const secrets = Array.from({ length: 200 }, () => newSecret('acme'));
  t.equal(new Set(secrets).size, 200);
  for (const secret of secrets) t.match(secret, /^acme_live_[0-9A-Za-z]{36}$/);
  t.ok(secrets.every((secret) => isWellFormed(secret, 'acme')));
});

t.test('the checksum is CRC-32 in base62, and finds every changed character', async (t) => {
  t.ok(isWellFormed(`rl_live_${'0'.repeat(30)}3r071G`, 'rl'));
  const secret = newSecret('rl');
  for (let at = 0; at < secret.length; at++) {
    const other = secret[at] === 'x' ? 'y' : 'x';
    const wrong = secret.slice(0, at) + other + secret.slice(at + 1);
    t.notOk(isWellFormed(wrong, 'rl'), `one character changed at ${at}`);
  }
});

t.test('a text that newSecret cannot have made is not well-formed', async (t) => {
  const secret = newSecret('rl');
  const wrong = [
    '',
    'x',
    'rl_live_',
    secret.slice(1),
    `${secret}a`,
    secret.toUpperCase(),
    ` ${secret}`,
  ];
  for (const one of wrong) t.notOk(isWellFormed(one, 'rl'), JSON.stringify(one));
  t.notOk(isWellFormed(secret, 'other'));
  t.notOk(isWellFormed(secret.replace(/.$/, 'é'), 'rl'));
});

t.test('the digest of a secret is its SHA-256', async (t) => {
  t.same(secretDigest('abc'), createHash('sha256').update('abc').digest());
});
