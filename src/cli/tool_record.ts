/**
 * A record as a tool gives it to a language model, which reads all of it: what is long is cut, and can be read in parts. A record
 * may have thousands of tests: of more than a few it shows those that failed first, and how many have which verdict.
 *
 * A length is that of JSON, in which a control character takes six bytes; an offset counts bytes of UTF-8.
 */

/** Of one output, and of all outputs of a record together. */
export const SHOWN_BYTES = 8 * 1024;
const ALL_SHOWN_BYTES = 64 * 1024;
/** The most that one call reads of an output. */
export const PART_BYTES = 64 * 1024;
/** The longest character in JSON: a part that is shorter could be empty. */
export const PART_LEAST_BYTES = 6;

/** Of one record, or of one call that reads on. */
export const TESTS_SHOWN = 20;

/** A record of another version of the service may lack what this one has. */
type Fields = Record<string, unknown>;
type Output = { name: string; of: Fields; field: string; text: string };

/** `bytes` of the text, of which so many are `shown`; `output` is its name for `partOf`. */
type Cut = { output: string; bytes: number; shown: number };

/** The record, with `cut` where something was cut, and `tests_left_out` where tests were left out. */
export function shownRecord(record: object): object {
  const tests = testsOf(record as Fields);
  if (tests.length <= TESTS_SHOWN) return cutRecord(record as Fields, () => true);
  const failed = tests.flatMap((test, place) => (isFailed(test) ? [place] : []));
  const shown = failed.slice(0, TESTS_SHOWN);
  const tests_left_out = {
    tests: tests.length,
    shown: shown.length,
    failed: failed.length,
    verdicts: verdictsOf(tests),
    next: `Here are the first that failed. read_result with first_test, from 1 to ${tests.length}, has ${TESTS_SHOWN} from there.`,
  };
  return { ...cutRecord(record as Fields, (place) => shown.includes(place)), tests_left_out };
}

/** The tests from number `first` on, as the record shows them; null if there is none of that number. */
export function testsFrom(record: object, first: number): object | null {
  const all = testsOf(record as Fields);
  if (first > all.length) return null;
  const end = Math.min(first - 1 + TESTS_SHOWN, all.length);
  const shown = cutRecord({ tests: all }, (place) => place >= first - 1 && place < end);
  return { ...shown, next_test: end < all.length ? end + 1 : null };
}

const testsOf = (record: Fields) => (record['tests'] ?? []) as Fields[];

/** Neither passed nor left out. */
const isFailed = ({ verdict }: Fields) => typeof verdict === 'string' && verdict !== 'AC';

function verdictsOf(tests: readonly Fields[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { verdict } of tests) {
    const name = typeof verdict === 'string' ? verdict : 'not run';
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/** A copy with those of its tests that are asked for, by their places. */
function cutRecord(record: Fields, isShown: (place: number) => boolean): Fields {
  const shown = structuredClone(record);
  const cut: Cut[] = [];
  let left = ALL_SHOWN_BYTES;
  for (const { name, of, field, text } of outputsOf(shown, isShown)) {
    const bytes = Buffer.from(text);
    const { end, taken } = within(bytes, 0, Math.min(SHOWN_BYTES, left));
    left -= taken;
    if (end === bytes.length) continue;
    of[field] = bytes.toString('utf8', 0, end);
    cut.push({ output: name, bytes: bytes.length, shown: end });
  }
  if (shown['tests']) shown['tests'] = testsOf(shown).filter((_, place) => isShown(place));
  return cut.length === 0 ? shown : { ...shown, cut };
}

/** Whole characters of up to `length` bytes in JSON, from the one that `offset` is in; null if the record has no such output. */
export function partOf(record: object, output: string, offset: number, length: number) {
  const found = outputsOf(record as Fields).find(({ name }) => name === output);
  if (found === undefined) return null;
  const bytes = Buffer.from(found.text);
  const from = boundary(bytes, offset);
  const to = within(bytes, from, length).end;
  return {
    output,
    offset: from,
    next_offset: to < bytes.length ? to : null,
    bytes: bytes.length,
    text: bytes.toString('utf8', from, to),
  };
}

/** Every text of a record that can be long, by its place in the record as the service has it. */
function outputsOf(record: Fields, isShown: (place: number) => boolean = () => true): Output[] {
  const found = (of: Fields, fields: string[], prefix = '') =>
    fields.flatMap((field): Output[] => {
      const text = of[field];
      return typeof text === 'string' ? [{ name: `${prefix}${field}`, of, field, text }] : [];
    });
  const each = (list: string, fields: string[], isAsked = (_: number) => true) =>
    ((record[list] ?? []) as Fields[]).flatMap((of, place) =>
      isAsked(place) ? found(of, fields, `${list}[${place}].`) : [],
    );
  return [
    ...found(record, ['stdout', 'stderr', 'transcript']),
    ...each('tests', ['stdout', 'stderr', 'message'], isShown),
    ...each('files', ['content_base64']),
  ];
}

/** Where whole characters from `from` on end that take at most so many bytes in JSON, and how many they take. */
function within(bytes: Uint8Array, from: number, most: number): { end: number; taken: number } {
  let end = from;
  let taken = 0;
  for (; end < bytes.length; end += 1) {
    const more = jsonBytes(bytes[end]!);
    if (taken + more > most) break;
    taken += more;
  }
  const whole = boundary(bytes, end);
  return { end: whole, taken: taken - (end - whole) };
}

/** Each byte of a character beyond ASCII is one in JSON, too. */
const JSON_BYTES = Array.from(
  { length: 128 },
  (_, code) => JSON.stringify(String.fromCharCode(code)).length - 2,
);
const jsonBytes = (byte: number): number => JSON_BYTES[byte] ?? 1;

/** The last place up to `at` where a character begins, or the end. */
function boundary(bytes: Uint8Array, at: number): number {
  let place = Math.min(at, bytes.length);
  // Bytes within a character begin with the bits 10.
  while (place < bytes.length && (bytes[place]! & 0xc0) === 0x80) place -= 1;
  return place;
}
