/** What the test files of a run share of their stores. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { PREPARED_PREFIX } from '../../src/executor/compile_cache.ts';
import { PREPARED_VARIABLE } from './prepared.ts';

const NAME = `${PREPARED_PREFIX}boot-digest`;

t.test('prepared artefacts go from one store to another, and nothing else does', async (t) => {
  const folder = t.testdir({ shared: {}, one: {}, other: {} });
  const shared = join(folder, 'shared');
  const one = join(folder, 'one');
  const other = join(folder, 'other');
  process.env[PREPARED_VARIABLE] = shared;
  const fresh = './prepared.ts?with-a-folder';
  const { takePrepared, givePrepared } = (await import(fresh)) as typeof import('./prepared.ts');
  for (const name of [NAME, '0123abcd', 'content-0123']) {
    mkdirSync(join(one, name));
    writeFileSync(join(one, name, 'file'), name);
  }
  await takePrepared(one);
  await givePrepared(one);
  t.strictSame(readdirSync(shared), [NAME]);
  await takePrepared(other);
  t.strictSame(readdirSync(other), [NAME], 'whole, and without a rest');
  t.equal(readFileSync(join(other, NAME, 'file'), 'utf8'), NAME);
  writeFileSync(join(one, NAME, 'more'), '');
  await givePrepared(one);
  t.strictSame(readdirSync(join(shared, NAME)), ['file'], 'what is there is not changed');
});
