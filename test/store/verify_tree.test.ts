/** Which of two trees is right: that of the events, or that of the tiles. A checkpoint's root decides. */
import t from 'tap';
import { CompactTree } from '../../src/proof/compact_tree.ts';
import { leafText } from '../../src/proof/merkle.ts';
import { Problems } from '../../src/store/problems.ts';
import type { SignedNote } from '../../src/store/signed_notes.ts';
import { TreeComparison } from '../../src/store/verify_tree.ts';
import { matchLists } from '../support/match_lists.ts';

const leaf = (name: string) => leafText(Buffer.from(name));
const EVENT = { stream: '018f0000-0000-7000-8000-000000000001', version: 3 };

/** The sealed leaves; then each event's leaf and its tile's, where they are others. */
function compared(sealed: string[], now: Record<number, { event?: string; tile?: string }>) {
  const honest = new CompactTree();
  for (const name of sealed) honest.append(leaf(name));
  const problems = new Problems();
  const tree = new TreeComparison(() => {}, problems);
  sealed.forEach((name, n) => {
    const { event = name, tile = name } = now[n] ?? {};
    if (event === tile) tree.take(leaf(event));
    else tree.differ('changed', leaf(tile), leaf(event), EVENT);
  });
  const signed = { size: sealed.length, root: honest.root(), name: 'checkpoint 1' } as SignedNote;
  tree.reach({ signed, met: false });
  return { tree, lines: problems.lines() };
}

const SEALED = ['a', 'b', 'c', 'd'];

t.test('tiles with the root of the checkpoint say which event was changed', async (t) => {
  const { tree, lines } = compared(SEALED, { 2: { event: 'x' } });
  matchLists(t, lines, [/events are not those that checkpoint 1 was signed over/]);
  t.same(tree.differences, [{ kind: 'changed', leaf: 2, event: EVENT }]);
});

t.test('tiles that are wrong where the events are right are damaged', async (t) => {
  const { tree, lines } = compared(SEALED, { 2: { tile: 'x' } });
  matchLists(t, lines, [/^tile 0\/0 does not have the hashes/]);
  t.equal(tree.difference_count, 0);
});

t.test('where events and tiles are wrong, no event is named from the tiles', async (t) => {
  const { tree, lines } = compared(SEALED, { 1: { event: 'x', tile: 'x' }, 2: { tile: 'y' } });
  matchLists(t, lines, [
    /neither the log's first 4 events nor the tiles have the root of checkpoint 1/,
  ]);
  t.same([tree.differences, tree.difference_count], [[], 1]);
});
