/** Every case and test file that SANDBOX.md's threat model names exists. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { CASES } from './cases/all.ts';

const FOLDERS = ['test/executor', 'test/languages', 'test/sandbox', 'test/cli', 'src/sandbox'];
const HEAD = '| a program cannot | because | test |';

const document = readFileSync('SANDBOX.md', 'utf8');
const rows = (document.split(HEAD)[1] ?? '')
  .split('\n')
  .slice(2)
  .map((line) => /^\| (.*) \| .* \| (.*) \|$/.exec(line))
  .slice(0, -1);
const table = rows
  .slice(0, rows.indexOf(null))
  .map((row) => ({ claim: row![1]!, tests: row![2]! }));

t.test('the threat model is found', async (t) => {
  t.ok(table.length >= 15, `${table.length} rows`);
});

for (const { claim, tests } of table) {
  t.test(`a program cannot ${claim}`, async (t) => {
    for (const part of tests.split('; ')) {
      const file = /^`([^`]+)`/.exec(part)?.[1];
      if (file !== undefined) {
        t.ok(
          FOLDERS.some((folder) => existsSync(join(folder, file))),
          file,
        );
        continue;
      }
      const [topic = '', list = ''] = part.split(/: (.*)/s);
      const names = CASES.filter((test) => test.topic === topic).map(({ name }) => name);
      t.ok(names.length > 0, `topic ${topic}`);
      if (list === 'every case') continue;
      const named = [...list.matchAll(/\*([^*]+)\*/g)].map(([, name]) => name!);
      t.equal(list, named.map((name) => `*${name}*`).join(', '), 'the cell is a list of cases');
      for (const name of named) t.ok(names.includes(name), `${topic}: ${name}`);
    }
  });
}
