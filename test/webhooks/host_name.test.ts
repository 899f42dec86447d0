import t from 'tap';
import { isLocalName, isName } from '../../src/webhooks/host_name.ts';

t.test('a name has labels that the DNS allows', async (t) => {
  const longest = `${'a'.repeat(63)}.`.repeat(3) + 'a'.repeat(61);
  t.equal(longest.length, 253);
  for (const name of ['com', 'hooks.example.com', 'under_score.a--b.example', longest]) {
    t.ok(isName(name), name);
  }
});

t.test('other texts are not names', async (t) => {
  const wrong = [
    '',
    '.',
    'a..b',
    '.example.com',
    'Hooks.example.com',
    'b\u00fccher.example',
    'a b.example',
    'a*.example',
    `${'a'.repeat(64)}.example`,
    `${'a'.repeat(63)}.`.repeat(3) + 'a'.repeat(62),
  ];
  for (const name of wrong) t.notOk(isName(name), JSON.stringify(name));
});

t.test('localhost and the names below it are this machine', async (t) => {
  for (const name of ['localhost', 'db.localhost', 'a.b.localhost']) t.ok(isLocalName(name), name);
  for (const name of ['localhost.example.com', 'mylocalhost', 'local', 'localhost.']) {
    t.notOk(isLocalName(name), name);
  }
});
