import t from 'tap';
import { connect } from '../src/db.ts';
import { freshDatabase } from './support/database.ts';

t.test('arrays survive the way to the database and back', async (t) => {
  const { urls } = await freshDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const words = ['plain', '', 'a "quoted" one', 'back\\slash', '{a,b}', 'NULL', 'line\nline', 'ü'];
  const id = '01890000-0000-7000-8000-000000000000';
  const [row] = await db`select ${words}::text[] as words, ${[1, -2]}::integer[] as numbers,
    ${[id]}::uuid[] as ids, array['2026-01-02T03:04:05.678Z'::timestamptz] as times, array[true, false] as flags,
    '{}'::text[] as none, array[null, 'x'] as some, array['\\x00ff'::bytea] as bytes,
    (${words}::text[])[5] as fifth, cardinality(${words}::text[]) as count`;
  t.same(row, {
    ...{ words, numbers: [1, -2], ids: [id], none: [], some: [null, 'x'] },
    ...{ times: [new Date('2026-01-02T03:04:05.678Z')], flags: [true, false] },
    ...{ bytes: [Buffer.from([0, 255])], fifth: words[4], count: words.length },
  });
});

t.test('items of an array may be as large as the record of a judged submission', async (t) => {
  const { urls } = await freshDatabase(t);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const MiB = 2 ** 20;
  const [row] = await db<{ bytes: Buffer[]; words: string[] }[]>`
    select array[convert_to(repeat('x', ${16 * MiB}), 'UTF8'), 'y'::bytea] as bytes,
      array[repeat('a "', 100000), repeat('b ', ${4 * MiB})] as words`;
  t.same(
    row!.bytes.map(({ length }) => length),
    [16 * MiB, 1],
  );
  t.ok(row!.bytes[0]!.equals(Buffer.alloc(16 * MiB, 'x')));
  t.ok(row!.words[0] === 'a "'.repeat(100_000));
  t.ok(row!.words[1] === 'b '.repeat(4 * MiB));
});
