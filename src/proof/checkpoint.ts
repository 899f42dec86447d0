/**
 * A checkpoint (c2sp.org/tlog-checkpoint): the log's name, the number of its leaves, and the root over them, as the text of a
 * signed note. We write no further lines; lines that others wrote are accepted and ignored.
 */
import { HASH_BYTES } from './merkle.ts';
import { BadNote, decode, isKeyName } from './note.ts';

export type Checkpoint = {
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
};

export function checkpointText({ origin, size, root }: Checkpoint): string {
  if (!isKeyName(origin)) throw new BadNote(`'${origin}' cannot be a log's name`);
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** The text of the note, without its signatures. */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin, size, root, ...more] = text.split('\n');
  const hash = root === undefined ? null : decode(root);
  if (!origin || more.at(-1) !== '' || more.slice(0, -1).includes('')) throw malformed();
  if (!/^(0|[1-9][0-9]{0,15})$/.test(size ?? '') || hash?.length !== HASH_BYTES) throw malformed();
  if (!Number.isSafeInteger(Number(size))) throw malformed();
  return { origin, size: Number(size), root: hash };
}

const malformed = () =>
  new BadNote("not a checkpoint: a log's name, a size and a root, a line each");
