/** A proof that an entry is in the log, as text (c2sp.org/tlog-proof@v1): index, hashes, and the checkpoint they lead to. */
import { HASH_BYTES } from './merkle.ts';
import { BadNote, decode } from './note.ts';

const FIRST_LINE = 'c2sp.org/tlog-proof@v1';
/** A tree has at most 63 levels above its leaves. */
const MOST_HASHES = 63;

export type InclusionProof = {
  readonly index: number;
  readonly hashes: readonly Buffer[];
  /** The signed note, as it was published. */
  readonly checkpoint: string;
};

export function inclusionText({ index, hashes, checkpoint }: InclusionProof): string {
  const lines = hashes.map((hash) => `${hash.toString('base64')}\n`).join('');
  return `${FIRST_LINE}\nindex ${index}\n${lines}\n${checkpoint}`;
}

export function parseInclusion(text: string): InclusionProof {
  const end = text.indexOf('\n\n');
  const [first, ...lines] = text.slice(0, Math.max(end, 0)).split('\n');
  if (first !== FIRST_LINE) throw new BadNote(`not a proof: its first line is not ${FIRST_LINE}`);
  if (lines[0]?.startsWith('extra ')) lines.shift();
  const index = /^index (0|[1-9][0-9]{0,15})$/.exec(lines.shift() ?? '')?.[1];
  if (index === undefined || !Number.isSafeInteger(Number(index)))
    throw new BadNote('the proof names no index');
  const hashes = lines.map((line) => decode(line));
  if (hashes.length > MOST_HASHES || hashes.some((hash) => hash?.length !== HASH_BYTES))
    throw new BadNote('the proof has a line that is no hash');
  return { index: Number(index), hashes: hashes as Buffer[], checkpoint: text.slice(end + 2) };
}
