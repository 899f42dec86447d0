/** Every case, test file and part of a title that SANDBOX.md's threat model names exists. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { CASES } from './cases/all.ts';
import { compile } from './cases/compile.ts';

const FOLDERS = ['test/executor', 'test/languages', 'test/sandbox', 'test/cli', 'src/sandbox'];
const HEAD = '| a program cannot | because | test |';

const document = readFileSync('SANDBOX.md', 'utf8');
const lines = (document.split(HEAD)[1] ?? '').split('\n').slice(2);
const table = lines.slice(0, lines.indexOf('')).map((line) => {
  const row = /^\| (.*) \| .* \| (.*) \|$/.exec(line);
  if (!row) throw new Error(`this is no row: ${line}`);
  return { claim: row[1]!, tests: row[2]! };
});

t.test('the threat model is found', async (t) => {
  t.ok(table.length >= 15, `${table.length} rows`);
});

for (const { claim, tests } of table) {
  t.test(`a program cannot ${claim}`, async (t) => {
    for (const part of tests.split('; ')) {
      const file = /^`([^`]+)`/.exec(part)?.[1];
      if (file !== undefined) {
        const path = FOLDERS.map((folder) => join(folder, file)).find(existsSync);
        t.ok(path, file);
        for (const [, title] of part.matchAll(/\*([^*]+)\*/g))
          t.ok(path && readFileSync(path, 'utf8').includes(title!), `${file}: ${title}`);
        continue;
      }
      const [topic = '', list = ''] = part.split(/: (.*)/s);
      const cases = topic === 'compile' ? compile : CASES.filter((test) => test.topic === topic);
      const names = cases.map(({ name }) => name);
      t.ok(names.length > 0, `topic ${topic}`);
      if (list === 'every case') continue;
      const named = [...list.matchAll(/\*([^*]+)\*/g)].map(([, name]) => name!);
      t.equal(list, named.map((name) => `*${name}*`).join(', '), 'the cell is a list of cases');
      for (const name of named) t.ok(names.includes(name), `${topic}: ${name}`);
    }
  });
}
