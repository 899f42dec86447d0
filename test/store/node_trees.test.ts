import t from 'tap';
import { canonicalTree } from '../../src/store/node_trees.ts';

const same = (t: { equal(a: string, b: string): unknown }, ...texts: string[]) => {
  for (const text of texts) t.equal(canonicalTree(text), canonicalTree(texts[0]!));
};
const other = (
  t: { not(a: string, b: string, why: string): unknown },
  first: string,
  ...texts: string[]
) => {
  for (const text of texts) t.not(canonicalTree(text), canonicalTree(first), text);
};

t.test('what only printing uses does not count', async (t) => {
  same(
    t,
    '{VAR :varno 1 :varattno 2 :varnosyn 1 :varattnosyn 2 :location 7}',
    '{VAR :varno 1\n :varattno 2 :varnosyn 3 :varattnosyn 9 :location -1}',
  );
  same(
    t,
    '({RTE :alias <> :eref {ALIAS :aliasname a\\ b :colnames ("x" "y")} :inh true})',
    '({RTE :alias {ALIAS :aliasname c :colnames <>} :eref {ALIAS :aliasname d :colnames <>} :inh true})',
  );
});

t.test('what the server runs counts', async (t) => {
  other(t, '{VAR :varno 1 :varattno 2}', '{VAR :varno 1 :varattno 3}', '{VAR :varno 1}');
  other(t, '{OP :opno 98 :opfuncid 67}', '{OP :opno 98 :opfuncid 740}');
  other(t, '{X :args ({A :a 1} {B :b 2})}', '{X :args ({B :b 2} {A :a 1})}');
});

t.test('OIDs that are counted are numbers in order, in constants, too', async (t) => {
  same(t, '(o 16400 16500 16400)', '(o 30000 20000 30000)');
  other(t, '(o 16400 16500 16400)', '(o 16400 16500 16500)', '(o #1 #2 #1)');
  other(t, '(o 67)', '(o 68)');
  const constant = (type: number, ...bytes: number[]) =>
    `{CONST :consttype ${type} :constvalue 4 [ ${bytes.join(' ')} 0 0 0 0 ]}`;
  same(t, constant(2205, 20, 78, 0, 0), constant(2205, -92, 78, 0, 0));
  other(t, constant(2205, 20, 0, 0, 0), constant(2205, 21, 0, 0, 0));
  same(t, constant(23, -92, 78, 0, 0), constant(23, 164, 78, 0, 0));
  other(t, constant(23, 20, 78, 0, 0), constant(23, 21, 78, 0, 0));
});

t.test('nothing hides where the server reads on and this reader does not', async (t) => {
  const honest = '{F :funcid 1 :funcformat 0 :inputcollid 2 :args <> :location 3}';
  other(
    t,
    honest,
    '{F :funcid 1 :funcformat 0 9 9 :inputcollid 2 :args <> :location 3}',
    '{F :funcid 1 :funcformat (x 5) :inputcollid 2 :args <> :location 3}',
    '{F :funcid 1 :funcformat {X :y 5} :inputcollid 2 :args <> :location 3}',
    '{F :funcid 1 :funcformat 0 :inputcollid\u00a02 :args <> :location 3}',
    '{F :funcid 1 :location 0 :inputcollid 2 :args <> :funcformat 3}',
    `${honest} {X :y 5}`,
    honest.slice(0, -1),
    `${honest}}`,
  );
  other(
    t,
    '{R :alias {ALIAS :aliasname a :colnames <>} :relid 1}',
    '{R :alias {ALIAS :aliasname {X :y 1} :colnames <>} :relid 1}',
    '{R :alias {ALIAS :aliasname a :colnames ({X :y 1})} :relid 1}',
    '{R :alias {ALIAS :aliasname a b :colnames <>} :relid 1}',
    '{R :alias {OTHER :aliasname a :colnames <>} :relid 1}',
  );
});
