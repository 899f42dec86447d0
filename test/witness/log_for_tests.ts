/** A log of any number of leaves, and its checkpoints and proofs, made by the functions that the service uses. */
import { additionText } from '../../src/proof/addition.ts';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { leafHash } from '../../src/proof/merkle.ts';
import { LOG_KEY, NoteSigner, noteText } from '../../src/proof/note.ts';
import { GrowingTree, type Tile, Tiles } from '../../src/proof/tiles.ts';

export type TestLog = {
  readonly origin: string;
  readonly signer: NoteSigner;
  root(size: number): Buffer;
  proof(old: number, size: number): Buffer[];
  /** The signed note of the tree of this size; `extension` are more lines of its text. */
  note(size: number, extension?: string): string;
  /** A request to a witness. */
  addition(old: number, size: number): string;
};

/** Two logs with the same seed and origin have the same leaves up to where `branch` begins. */
export function testLog(
  origin: string,
  leaves: number,
  {
    seed = 1,
    branch = null,
  }: { seed?: number; branch?: { from: number; name: string } | null } = {},
): TestLog {
  const tree = new GrowingTree(0, []);
  for (let n = 0; n < leaves; n++) {
    const name = branch && n >= branch.from ? branch.name : '';
    tree.append(leafHash(Buffer.from(`${name}${n}`)));
  }
  const tiles = new Map<string, Tile>(
    tree.takeChanged().map((tile) => [`${tile.level}/${tile.index}`, tile]),
  );
  const all = new Tiles(tiles.values());
  const signer = new NoteSigner(origin, LOG_KEY, Buffer.alloc(32, seed));
  const root = (size: number) => all.rootOf({ from: 0, to: size });
  const note = (size: number, extension = '') => {
    const text = `${checkpointText({ origin, size, root: root(size) })}${extension}`;
    return noteText({ text, signatures: [signer.sign(text)] });
  };
  const proof = (old: number, size: number) => all.consistencyProof(old, size);
  return {
    origin,
    signer,
    root,
    proof,
    note,
    addition: (old, size) => additionText(old, proof(old, size), note(size)),
  };
}
