import t from 'tap';
import {
  isIdentityEncoding,
  isJsonContentType,
  isZipContentType,
  parseIdempotencyKey,
  parsePreferWait,
  parseTraceparent,
  parseUuid,
  repeatedHeaders,
} from '../../src/http/wire/header_values.ts';

const ID = '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10';

t.test('UUIDs', async (t) => {
  t.equal(parseUuid(ID.toUpperCase()), ID);
  for (const text of ['', ID.slice(1), `${ID}0`, ID.replaceAll('-', ''), `{${ID}}`, `${ID}\n`]) {
    t.equal(parseUuid(text), null, JSON.stringify(text));
  }
});

t.test('Idempotency-Key', async (t) => {
  for (const text of [ID, `"${ID}"`, ` ${ID} `, `"${ID.toUpperCase()}"`]) {
    t.equal(parseIdempotencyKey(text), ID, text);
  }
  for (const text of ['', '""', `'${ID}'`, `"${ID}`, `${ID}"`, `""${ID}""`, `${ID}, ${ID}`]) {
    t.equal(parseIdempotencyKey(text), null, text);
  }
});

t.test('Prefer: wait', async (t) => {
  const cases: [string | undefined, number | null][] = [
    ['wait=5', 5],
    ['Wait = 5', 5],
    ['wait="5"', 5],
    ['respond-async, wait=0', 0],
    ['wait=5; a=b', 5],
    ['wait=5, wait=9', 5],
    ['handling=lenient,wait=7', 7],
    [undefined, null],
    ['', null],
    ['wait', null],
    ['wait=', null],
    ['wait=-1', null],
    ['wait=1.5', null],
    ['await=3', null],
    ['wait=1e3', null],
    ['wait=99999999999', null],
  ];
  for (const [text, seconds] of cases) t.equal(parsePreferWait(text), seconds, String(text));
});

t.test('Content-Type and Content-Encoding', async (t) => {
  for (const type of ['application/json', 'APPLICATION/JSON', 'application/json ; charset=utf-8']) {
    t.ok(isJsonContentType(type), type);
  }
  for (const type of [
    undefined,
    '',
    'text/json',
    'application/json+x',
    'application/json; charset=utf-16',
  ]) {
    t.notOk(isJsonContentType(type), String(type));
  }
  t.ok(isIdentityEncoding(undefined) && isIdentityEncoding('Identity'));
  t.notOk(isIdentityEncoding('gzip'));
});

t.test('traceparent', async (t) => {
  const good = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  t.equal(parseTraceparent(good), good);
  t.equal(parseTraceparent(`cc${good.slice(2)}-more`), `cc${good.slice(2)}`, 'a later version');
  for (const text of [
    undefined,
    '',
    `${good}-more`,
    `ff${good.slice(2)}`,
    good.toUpperCase(),
    good.replace('4bf92f3577b34da6a3ce929d0e0e4736', '0'.repeat(32)),
  ]) {
    t.equal(parseTraceparent(text), null, String(text));
  }
});

t.test('headers that must not be repeated', async (t) => {
  t.same(repeatedHeaders(['Host', 'a', 'HOST', 'b', 'Accept', 'c', 'Accept', 'd']), ['host']);
  t.same(repeatedHeaders(['Host', 'a', 'X-API-Key', 'b']), []);
  for (const name of [
    ...['Host', 'Content-Type', 'Content-Length', 'Content-Encoding'],
    ...['Transfer-Encoding', 'X-API-Key', 'Idempotency-Key'],
  ])
    t.same(repeatedHeaders([name, 'a', 'Accept', 'c', name, 'a']), [name.toLowerCase()], name);
});

t.test('the content type of an archive may have parameters', (t) => {
  for (const type of ['application/zip', ' Application/Zip ', 'application/zip; name="x;y.zip"'])
    t.ok(isZipContentType(type), type);
  for (const type of [undefined, '', 'application/zipped', 'text/plain; application/zip'])
    t.notOk(isZipContentType(type), String(type));
  t.end();
});
