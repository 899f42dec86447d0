/** What the documents name is there: links, files, variables, commands, targets of make. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { commands } from '../src/cli/commands.ts';
import { variables } from '../src/config/variables.ts';

const documents = readdirSync('.').filter((name) => name.endsWith('.md'));
const texts = [...documents, 'app.json', 'render.yaml', 'Makefile'].map((name) => ({
  name,
  text: readFileSync(name, 'utf8'),
}));

const found = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map((match) => match[1]!);

t.test('every link leads somewhere', async (t) => {
  for (const { name, text } of texts) {
    for (const link of found(text, /\]\(([^)#:\s]+)(?:#[^)]*)?\)/g))
      t.ok(existsSync(link), `${name}: ${link}`);
  }
});

t.test('every file that is named is there', async (t) => {
  for (const { name, text } of texts) {
    const paths = found(text, /(?<!build\/)\b((?:src|sql|test|bench)\/[a-z0-9_/.-]*[a-z0-9_])/g);
    for (const path of paths) t.ok(existsSync(path), `${name}: ${path}`);
  }
});

t.test('every variable that is named exists', async (t) => {
  const known = new Set(Object.values(variables).map((variable) => variable.name));
  for (const { name, text } of texts) {
    for (const variable of found(text, /\b(RUNLEDGER_[A-Z][A-Z_]*[A-Z])\b/g)) {
      t.ok(known.has(variable) || variable.startsWith('RUNLEDGER_TEST_'), `${name}: ${variable}`);
    }
  }
});

t.test('every command that is named exists', async (t) => {
  for (const { name, text } of texts) {
    for (const words of found(text, /\brunledger ([a-z]+(?: [a-z]+)?)/g)) {
      const known = [words, words.split(' ')[0]!].some((command) =>
        Object.hasOwn(commands, command),
      );
      if (isCommandLine(text, words)) t.ok(known, `${name}: runledger ${words}`);
    }
  }
});

/** Prose says "a runledger already runs"; a command stands in code, and a format has a number. */
function isCommandLine(text: string, words: string): boolean {
  return new RegExp(`(npx |\`|^\\s*)runledger ${words}(?! \\d)`, 'm').test(text);
}

t.test('every target of make that is named exists', async (t) => {
  const makefile = readFileSync('Makefile', 'utf8');
  for (const { name, text } of texts.filter((one) => one.name !== 'Makefile')) {
    for (const target of found(text, /(?:^|`)make ([a-z-]+)/gm)) {
      t.match(
        makefile,
        new RegExp(`^[a-z -]*\\b${target}\\b[a-z -]*:`, 'm'),
        `${name}: make ${target}`,
      );
    }
  }
});
