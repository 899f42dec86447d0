/** What every list says of the languages, and that each of them is made from the folder. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { variables } from '../../src/config/variables.ts';
import { languageSwitches, loadConfig } from '../../src/config.ts';
import { limitsFor } from '../../src/domain/limits.ts';
import { calls } from '../../src/http/api/calls.ts';
import { submissionRules } from '../../src/http/api/submission_rules.ts';
import { openapiDocument } from '../../src/http/document/openapi.ts';
import { pageOf } from '../../src/http/document/page.ts';
import {
  acceptedNames,
  CANONICAL_NAMES,
  LANGUAGES,
  ON_BY_DEFAULT,
  titlesOf,
} from '../../src/languages/common/registry.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'src/languages');

t.test('the folder is the list', async (t) => {
  const files = readdirSync(FOLDER)
    .filter((name) => name !== 'common')
    .map((name) => name.replace(/\.ts$/, ''));
  t.strictSame(LANGUAGES.map(({ name }) => name).sort(), files.sort());
});

t.test('what is on by default comes first, in its order', async (t) => {
  t.strictSame(ON_BY_DEFAULT, ['python', 'cpp', 'java']);
  t.strictSame(LANGUAGES.map(({ name }) => name).slice(0, 3), ON_BY_DEFAULT);
  t.equal(variables.languages.default, 'python,cpp,java');
  t.strictSame(loadConfig({}).languages, ON_BY_DEFAULT);
});

t.test('a language is whole', async (t) => {
  const switches = LANGUAGES.flatMap((language) => language.switches);
  for (const language of LANGUAGES) {
    const { name, title, endings, hello, source, needs, full_heap_bytes } = language;
    t.match(name, /^[a-z][a-z0-9_]*$/, 'it is part of the name of a task');
    t.ok(title.length > 0 && endings.length > 0, name);
    t.ok(endings.includes(source.split('.').at(-1)!), `${name}: ${source} has one of its endings`);
    t.notOk(hello.includes("'"), `${name}: a shell can quote hello`);
    t.ok(needs.wall_factor >= 1 && needs.least_processes >= 1, name);
    for (const memory_bytes of [1, 2 ** 28, 2 ** 30]) {
      const limits = limitsFor(needs, { memory_bytes });
      const full = full_heap_bytes?.(limits) ?? limits.memory_bytes;
      t.ok(full > limits.memory_bytes / 10 && full <= limits.memory_bytes, name);
    }
  }
  const fixed = Object.keys(variables).filter((key) => !switches.some(({ name }) => name === key));
  for (const { name, variable } of switches) {
    t.notOk(fixed.includes(name), `${name} is the name of no other variable`);
    t.equal((variables as Record<string, { name?: string }>)[name]?.name, variable);
    t.equal(languageSwitches(loadConfig({}))[name], true);
    t.equal(languageSwitches(loadConfig({ [variable]: 'off' }))[name], false);
  }
});

t.test('names and titles', async (t) => {
  t.equal(CANONICAL_NAMES.get('c++'), 'cpp');
  t.equal(CANONICAL_NAMES.get('js'), 'javascript');
  t.equal(CANONICAL_NAMES.get('C'), undefined);
  t.strictSame(acceptedNames(['cpp', 'java']), ['cpp', 'c++', 'cxx', 'java']);
  t.equal(titlesOf(['python', 'cpp', 'java'], 'or'), 'Python, C++ or Java');
  t.equal(titlesOf(['c'], 'or'), 'C');
});

t.test('the OpenAPI document and the page have what is on, and nothing else', async (t) => {
  const documentOf = (RUNLEDGER_LANGUAGES: string) => {
    const config = loadConfig({ RUNLEDGER_LANGUAGES });
    const document = openapiDocument(calls, submissionRules(config, null));
    const { body } = pageOf(document, config.languages)('https://x.example');
    const html = Buffer.from(body as Uint8Array).toString();
    return { document: document as unknown as Document, html };
  };
  const usual = documentOf('');
  const { language } = usual.document.components.schemas.SubmissionRequest.properties;
  t.strictSame(language.enum, ['python', 'py', 'cpp', 'c++', 'cxx', 'java']);
  t.equal(language.description, 'py is python; c++ and cxx are cpp.');
  t.match(usual.html, /Send source code in Python, C\+\+ or Java;/);
  t.notMatch(usual.html, /JavaScript/);

  const other = documentOf('javascript,c');
  const { properties } = other.document.components.schemas.SubmissionRequest;
  t.strictSame(properties.language.enum, ['javascript', 'js', 'c']);
  const { items } = other.document.components.schemas.Languages;
  t.notOk(items.enum, 'one that is switched on later is no mistake of the answer');
  t.match(items.description, /javascript or c\b|javascript, c\b/);
  const submit = other.document.paths['/api/submit'].post.requestBody.content['application/json'];
  t.strictSame(
    Object.values(submit.examples).map(({ value }) => value.language),
    ['javascript', 'c'],
    'examples are of these',
  );
  t.match(other.html, /Send source code in JavaScript or C;/);
  t.match(other.html, /&quot;language&quot;:&quot;javascript&quot;[^<]*console\.log/);
  t.match(other.html, /#include &lt;stdio\.h&gt;/, 'a program is text, not markup');
  t.notMatch(other.html, /Python|C\+\+/);
});

t.test('a language that is not there is an error of the configuration', async (t) => {
  t.throws(() => loadConfig({ RUNLEDGER_LANGUAGES: 'python,cobol' }), /RUNLEDGER_LANGUAGES/);
  const twice = loadConfig({ RUNLEDGER_LANGUAGES: 'c,python,c' });
  t.strictSame(twice.languages, ['c', 'python']);
});

t.test('the README names every language', async (t) => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  for (const { title } of LANGUAGES) t.ok(readme.includes(title), title);
  t.ok(readme.includes(`${titlesOf(ON_BY_DEFAULT, 'and')}.`), 'and what is on by default');
});

t.test('every language has its programs in the tests', async (t) => {
  for (const { name } of LANGUAGES)
    t.ok(existsSync(join(import.meta.dirname, 'corpus', `${name}.ts`)), name);
});

t.test('no file outside the folder names a language that is off by default', async (t) => {
  const named = /(['"`])(javascript|gcc|node-linux)\1|languages\/(?!common\/)/;
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => /\.ts$/.test(name) && !/^languages\//.test(name))) {
    t.notMatch(readFileSync(join(ROOT, 'src', file), 'utf8'), named, file);
  }
});

type Document = {
  components: {
    schemas: {
      SubmissionRequest: { properties: { language: { enum: string[]; description: string } } };
      Languages: { items: { enum?: string[]; description: string } };
    };
  };
  paths: {
    '/api/submit': {
      post: {
        requestBody: {
          content: {
            'application/json': { examples: Record<string, { value: { language: string } }> };
          };
        };
      };
    };
  };
};
