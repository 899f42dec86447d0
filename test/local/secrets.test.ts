import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { faultLine } from '../../src/fault.ts';
import { claimKey, hasUsedKey, localSecrets, markUsed } from '../../src/local/secrets.ts';

const OTHER = 4242;

t.test('only secrets that are damaged are to be restored from a copy', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'secrets.json');
  await localSecrets(folder);
  writeFileSync(path, readFileSync(path, 'utf8').slice(0, 40));
  const line = await localSecrets(folder).catch(faultLine);
  t.match(line, /secrets\.json is damaged: .*: restore it from a copy$/);
});

t.test('a password of a login is one that stands in an address and in a statement', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'secrets.json');
  const secrets = await localSecrets(folder);
  for (const web of ["it's", '100%', '', 'ABCDEF0123456789', 'abc']) {
    const role_passwords = { ...secrets.role_passwords, web };
    writeFileSync(path, JSON.stringify({ ...secrets, role_passwords }));
    const line = await localSecrets(folder).catch(faultLine);
    t.match(
      line,
      /role_passwords\.web is not 16 to 128 hexadecimal digits: make one with `openssl/,
    );
  }
  const role_passwords = { ...secrets.role_passwords, web: 'ab'.repeat(32) };
  writeFileSync(path, JSON.stringify({ ...secrets, role_passwords }));
  t.match(await localSecrets(folder), { role_passwords });
});

t.test('what a start that was killed has left does not stop the next one', async (t) => {
  const folder = t.testdir();
  const left = `secrets.json.${process.pid}`;
  writeFileSync(join(folder, left), '');
  const [one, other] = await Promise.all([localSecrets(folder), localSecrets(folder)]);
  t.same(one, other);
  t.same(readdirSync(folder), ['secrets.json', left]);
});

t.test('a key signs the log of one database, which the first of two starts decides', async (t) => {
  const folder = t.testdir();
  await localSecrets(folder, { for_new_data: true });
  t.equal(await hasUsedKey(folder), false);
  const claims = await Promise.all(['one', 'other'].map((name) => claimKey(folder, name)));
  t.same([...claims].sort(), [false, true]);
  t.equal(await hasUsedKey(folder), true);
  const again = await Promise.all(['one', 'other'].map((name) => claimKey(folder, name)));
  t.same(again, claims, 'a start that was killed goes on, and no other takes its place');
  t.equal(await markUsed(folder), false, 'nor does the embedded database');
  t.equal(await markUsed(folder, { restored: true }), true);
  t.equal(await markUsed(folder), true, 'the log that was restored goes on');
});

t.test(
  'a key that the embedded database uses, or that came from elsewhere, is of no other',
  async (t) => {
    const folder = t.testdir();
    await localSecrets(folder, { for_new_data: true });
    t.same([await markUsed(folder), await markUsed(folder)], [true, true]);
    t.equal(await claimKey(folder, 'one'), false);
    const copied = t.testdir();
    await localSecrets(copied);
    t.same([await claimKey(copied, 'one'), await claimKey(copied, 'one')], [false, false]);
    t.equal(await markUsed(copied), true, 'data are there, of an older version');
  },
);

t.test(
  'another user is referred to the owner',
  { skip: process.getuid!() === 0 ? false : 'not root' },
  async (t) => {
    // The other user must reach it, wherever the clone is.
    const folder = mkdtempSync(join(tmpdir(), 'runledger-secrets-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    await localSecrets(folder);
    chmodSync(folder, 0o755);
    process.seteuid!(OTHER);
    const line = await localSecrets(folder)
      .catch(faultLine)
      .finally(() => process.seteuid!(0));
    t.match(line, /^EACCES: .*secrets\.json': run this as the user who owns the folder$/);
  },
);
