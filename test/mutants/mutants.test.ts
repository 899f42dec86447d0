/** Each mutant changes the code as it is today. Whether its tests notice is what `make mutants` finds out. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ownServer } from '../support/database.ts';
import { mutants } from './mutants.ts';
import { copyTo, endOf, outcomeOf } from './run.ts';

t.test('what a mutant replaces is in its file, once', async (t) => {
  for (const { file, find, replace, why } of mutants) {
    t.equal(readFileSync(file, 'utf8').split(find).length - 1, 1, `${file}: ${why}: ${find}`);
    t.not(find, replace, why);
  }
});

t.test('its tests are there', async (t) => {
  const files = new Set(mutants.flatMap(({ tests }) => tests.map((test) => test.split(' ')[0]!)));
  for (const file of files) t.ok(existsSync(file), file);
});

t.test('a change that does not load kills nothing', async (t) => {
  const tree = join(t.testdir(), 'tree');
  copyTo(tree);
  // What runs on a given server sets the passwords of its roles.
  const { superuser_url } = await ownServer(t);
  const test = 'test/domain/verdicts.test.ts';
  const change = { tests: [test], why: 'for this test' };
  const kindOf = (mutant: { file: string; find: string; replace: string }) =>
    outcomeOf({ ...mutant, ...change }, tree, new Map([[test, 10_000]]), superuser_url);

  const file = 'src/domain/verdicts.ts';
  const find = 'export const VERDICTS = {';
  const unreadable = await kindOf({ file, find, replace: `const ${find}` });
  t.match(unreadable, { kind: 'NOT LOADED', why: /SyntaxError/ });
  const unlinked = await kindOf({ file, find, replace: find.slice('export '.length) });
  t.equal(unlinked.kind, 'NOT LOADED', 'nor one that its importers cannot do with');

  const sql = {
    file: 'sql/functions/seal.sql',
    find: 'create or replace function runledger.put_tiles',
  };
  const kept = readFileSync(join(tree, 'DATA.md'), 'utf8');
  const refused = await kindOf({ ...sql, replace: `creates ${sql.find}` });
  t.match(refused, { kind: 'NOT LOADED', why: /syntax error/ });
  t.equal(readFileSync(join(tree, sql.file), 'utf8'), readFileSync(sql.file, 'utf8'));
  t.equal(readFileSync(join(tree, 'DATA.md'), 'utf8'), kept);

  const killed = await kindOf({ file, find: 'rejected by the compiler', replace: 'no' });
  t.equal(killed.kind, 'killed');
});

t.test('nor does one with which a process does not start', (t) => {
  const named = (name: string, message?: string) =>
    endOf({ name, fullname: name, diag: message === undefined ? null : { message } });
  t.equal(named('web did not start:\nSyntaxError').kind, 'did not load');
  t.equal(named('an error', 'the worker did not start: x').kind, 'did not load');
  t.equal(named('no PostgreSQL for tests: a migration').kind, 'did not load');
  t.equal(named('it starts once', 'should be equal').kind, 'failed');
  t.end();
});
