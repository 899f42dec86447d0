/** A record as a tool gives it to a language model, which reads all of it: what is long is cut, and can be read in parts. */

/** Of one output, and of all outputs of a record together. */
export const SHOWN_BYTES = 8 * 1024;
const ALL_SHOWN_BYTES = 64 * 1024;
/** The most that one call reads of an output. */
export const PART_BYTES = 64 * 1024;
/** The longest character in UTF-8: a part that is shorter could be empty. */
export const PART_LEAST_BYTES = 4;

/** A record of another version of the service may lack what this one has. */
type Fields = Record<string, unknown>;
type Output = { name: string; of: Fields; field: string; text: string };

/** `bytes` of the text, of which so many are `shown`; `output` is its name for `partOf`. */
type Cut = { output: string; bytes: number; shown: number };

/** The record, with `cut` where something was cut. */
export function shownRecord(record: object): object {
  const shown = structuredClone(record) as Fields;
  const cut: Cut[] = [];
  let left = ALL_SHOWN_BYTES;
  for (const { name, of, field, text } of outputsOf(shown)) {
    const bytes = Buffer.from(text);
    const end = boundary(bytes, Math.min(SHOWN_BYTES, left));
    left -= end;
    if (end === bytes.length) continue;
    of[field] = bytes.toString('utf8', 0, end);
    cut.push({ output: name, bytes: bytes.length, shown: end });
  }
  return cut.length === 0 ? shown : { ...shown, cut };
}

/** Whole characters, from the one that `offset` is in; null if the record has no such output. */
export function partOf(record: object, output: string, offset: number, length: number) {
  const found = outputsOf(record as Fields).find(({ name }) => name === output);
  if (found === undefined) return null;
  const bytes = Buffer.from(found.text);
  const from = boundary(bytes, offset);
  const to = boundary(bytes, from + length);
  return {
    output,
    offset: from,
    next_offset: to < bytes.length ? to : null,
    bytes: bytes.length,
    text: bytes.toString('utf8', from, to),
  };
}

/** Every text of a record that can be long, by its place in the JSON. */
function outputsOf(record: Fields): Output[] {
  const found = (of: Fields, fields: string[], prefix = '') =>
    fields.flatMap((field): Output[] => {
      const text = of[field];
      return typeof text === 'string' ? [{ name: `${prefix}${field}`, of, field, text }] : [];
    });
  const each = (list: string, fields: string[]) =>
    ((record[list] ?? []) as Fields[]).flatMap((of, n) => found(of, fields, `${list}[${n}].`));
  return [
    ...found(record, ['stdout', 'stderr', 'transcript']),
    ...each('tests', ['stdout', 'stderr', 'message']),
    ...each('files', ['content_base64']),
  ];
}

/** The last place up to `at` where a character begins, or the end. */
function boundary(bytes: Uint8Array, at: number): number {
  let place = Math.min(at, bytes.length);
  // Bytes within a character begin with the bits 10.
  while (place < bytes.length && (bytes[place]! & 0xc0) === 0x80) place -= 1;
  return place;
}
