import t from 'tap';
import { chooseHeaders, HEADER_SETS, openingIncludes } from '../../src/languages/cpp/headers.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const opening = (text: string) => openingIncludes(bytes(text));

t.test('the includes that a source opens with', async (t) => {
  const rows: [string, string, string[]][] = [
    ['one', '#include <iostream>\nint main(){}', ['iostream']],
    ['no blanks', '#include<vector>\nint x;', ['vector']],
    ['many blanks', '  #  include \t <map>  \n', ['map']],
    [
      'several',
      '#include <a>\n#include <b>\r\n\n#include <bits/stdc++.h>\n',
      ['a', 'b', 'bits/stdc++.h'],
    ],
    ['comments', '// x\n/* y\n */ #include <a> // z\n#include <b> /* w */\n', ['a', 'b']],
    ['a token before', 'int x;\n#include <a>\n', []],
    ['a token between', '#include <a>\nint x;\n#include <b>\n', ['a']],
    ['a define before', '#define NDEBUG\n#include <cassert>\n', []],
    ['a define between', '#include <a>\n#define X\n#include <b>\n', ['a']],
    ['a pragma before', '#pragma GCC optimize("O3")\n#include <a>\n', []],
    ['a quoted header', '#include "a.h"\n#include <b>\n', []],
    ['a computed header', '#include HEADER\n', []],
    ['a condition', '#if 1\n#include <a>\n#endif\n', []],
    ['include_next', '#include_next <a>\n', []],
    ['something behind it', '#include <a> int x;\n', []],
    ['a raw string', 'auto s = R"(\n#include <a>\n)";', []],
    ['in a comment', '/*\n#include <a>\n*/\n#include <b>\n', ['b']],
    ['a comment that does not end', '/* #include <a>\n', []],
    ['a spliced comment', '// x \\\n#include <a>\n', []],
    ['a splice later', '#include <a>\n// x \\\n#include <b>\n', ['a']],
    ['a splice within', '#include <a>\n#incl\\\nude <b>\n', ['a']],
    ['a trigraph', '// what??/\n#include <a>\n', []],
    ['a digraph', '%:include <a>\n', []],
    ['a byte order mark', '\ufeff#include <a>\n', []],
    ['no end of line', '#include <a>', []],
    ['nothing', '', []],
  ];
  for (const [name, text, headers] of rows) t.strictSame(opening(text), headers, name);
});

t.test('a long opening ends where reading ends', async (t) => {
  const long = `//${'x'.repeat(10_000)}\n#include <a>\n`;
  t.strictSame(opening(long), []);
  t.strictSame(opening(`#include <a>\n${long}`), ['a']);
});

t.test('the largest set that lies within them, by the name of the first', async (t) => {
  const choose = (text: string) => chooseHeaders(bytes(text), HEADER_SETS);
  const include = (...headers: string[]) => headers.map((h) => `#include <${h}>\n`).join('');
  t.strictSame(choose(include('iostream')), { set: ['iostream'], first: 'iostream' });
  t.strictSame(choose(include('bits/stdc++.h'))?.first, 'bits/stdc++.h');
  t.strictSame(choose(include('vector', 'cmath', 'iostream')), {
    set: ['iostream', 'vector'],
    first: 'vector',
  });
  t.equal(choose(include('cmath', 'iostream')), null, 'the first is in no set');
  t.equal(choose(include('vector')), null, 'iostream is not included');
  t.equal(choose('int main(){}'), null);
  t.equal(chooseHeaders(bytes(include('iostream')), []), null, 'none is ready');
});

t.test('a larger set is offered before the smaller ones it contains', async (t) => {
  for (const [i, large] of HEADER_SETS.entries()) {
    for (const small of HEADER_SETS.slice(0, i)) {
      const hidden = small.length < large.length && small.every((header) => large.includes(header));
      t.notOk(hidden, `${large} comes behind ${small}`);
    }
  }
});
