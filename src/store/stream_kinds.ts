/** What a stream is about. All its events are of one thing, and only a submission's stream has a time for its id. */

/** Types that begin with another word than the thing that they are of. */
const ELSE = { execution: 'submission', delivery: 'submission', payloads: 'log' } as const;

export function kindOf(type: string): string {
  const [word] = type.split('.', 1) as [string];
  return Object.hasOwn(ELSE, word) ? ELSE[word as keyof typeof ELSE] : word;
}

/** The same of the column `type`, in SQL. */
export const KIND = `case split_part(type, '.', 1) ${Object.entries(ELSE)
  .map(([word, kind]) => `when '${word}' then '${kind}'`)
  .join(' ')} else split_part(type, '.', 1) end collate "C"`;

/** Ids from here on have no month. */
export const PERMANENT = 'f0000000-0000-0000-0000-000000000000';
const PERMANENT_BYTE = 0xf0;

/** `id`: the first byte of the stream's. */
export const canBeOf = (kind: string, id: number): boolean =>
  (kind === 'submission') === id < PERMANENT_BYTE;
