/** Everything that the documents name exists: links, files, variables, commands with their options, targets of make. */
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { commands, commandsOf, isGroup } from '../src/cli/command_table.ts';
import { variables } from '../src/config/variables.ts';
import { deployFiles } from './deploy/manifests.ts';
import { documents, shellLines } from './support/documents.ts';

const others = ['app.json', 'render.yaml', 'Makefile', 'Procfile', ...deployFiles()];
const texts = [
  ...documents(),
  ...others.map((name) => ({ name, text: readFileSync(name, 'utf8') })),
];

const found = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map((match) => match[1]!);

t.test('every link leads to a file, and to a heading in it', async (t) => {
  const headings = (text: string) =>
    found(text, /^#+ (.*)$/gm).map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
    );
  for (const { name, text } of documents()) {
    for (const [, file, anchor] of text.matchAll(/\]\(([^)#:\s]*)(?:#([^)]*))?\)/g)) {
      const target = file || name;
      t.ok(existsSync(target), `${name}: ${target}`);
      if (anchor)
        t.ok(headings(readFileSync(target, 'utf8')).includes(anchor), `${name}: #${anchor}`);
    }
  }
});

t.test('every file that is named exists', async (t) => {
  for (const { name, text } of texts) {
    const paths = found(text, /(?<!build\/)\b((?:src|sql|test|bench)\/[a-z0-9_/.-]*[a-z0-9_])/g);
    for (const path of paths) t.ok(existsSync(path), `${name}: ${path}`);
  }
});

/** Variables that no longer exist, each with the document that tells the reader to remove it. */
const GONE: Readonly<Record<string, string>> = {
  RUNLEDGER_AUDITOR_DATABASE_URL: 'CHANGELOG.md',
};

t.test('every variable that is named exists', async (t) => {
  const known = new Set(Object.values(variables).map((variable) => variable.name));
  for (const { name, text } of texts) {
    for (const variable of found(text, /\b(RUNLEDGER_[A-Z][A-Z_]*[A-Z])\b/g)) {
      if (variable.startsWith('RUNLEDGER_TEST_')) continue;
      t.equal(known.has(variable), GONE[variable] !== name, `${name}: ${variable}`);
    }
  }
});

t.test('every command that is named exists, with the options that are named', async (t) => {
  for (const { name, text } of texts) {
    for (const line of found(text, /(?:\.\/runledger|src\/cli\/main\.js) ([^`\n#>|&]+)/g)) {
      const [first = '', second = ''] = line.trim().split(/\s+/);
      const command = [`${first} ${second}`, first].find((words) => Object.hasOwn(commands, words));
      if (/^(--help|--version|COMMAND|…|\$)/.test(first) || (isGroup(first) && second === '--help'))
        continue;
      t.ok(
        command,
        `${name}: ./runledger ${line}${isGroup(first) ? ` (${commandsOf(first)})` : ''}`,
      );
      if (!command) continue;
      const { options = {} } = (await commands[command]!()).command;
      for (const option of found(line, /--([a-z-]+)/g))
        t.ok(
          option === 'help' || Object.hasOwn(options, option),
          `${name}: ${command} --${option}`,
        );
    }
  }
});

t.test('a command is always written as it is typed in a clone', async (t) => {
  for (const { name, text } of documents()) {
    t.notMatch(text, /npx/, name);
    for (const command of Object.keys(commands)) {
      // `runledger seal 1` is the first line of a format.
      t.notMatch(text, new RegExp(`(?<!/)\\brunledger ${command}\\b(?! 1)`), name);
    }
  }
});

t.test(
  'no command has a password among its words, where each user of a machine reads it',
  async (t) => {
    const PASSWORD = /(?<!\\)\bpassword[= ]['"]?[^ '"]|:\/\/[^\s@:/']+:[^\s@/']+@/;
    for (const document of documents())
      for (const line of shellLines(document)) {
        // What is set before the command is in its environment, which nobody else reads.
        const words = line.replace(/^(?:[A-Z_]+=(?:'[^']*'|\S*) +)+/, '');
        t.notMatch(words, PASSWORD, `${document.name}: ${line}`);
      }
  },
);

t.test('every target of make that is named exists', async (t) => {
  const makefile = readFileSync('Makefile', 'utf8');
  for (const { name, text } of texts.filter((one) => one.name !== 'Makefile')) {
    for (const target of found(text, /(?:^|`)make ([a-z][a-z0-9-]*)/gm)) {
      t.match(
        makefile,
        new RegExp(`^[a-z0-9 -]*(?<![a-z0-9-])${target}(?![a-z0-9-])[a-z0-9 -]*:`, 'm'),
        `${name}: make ${target}`,
      );
    }
  }
});
