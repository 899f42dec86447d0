/**
 * The payloads that a record of a judged submission stands for. What the record shows of its tests and files is packed again as
 * the service packs it, so that it can be compared with the digests in the log. The record may be anything.
 */
import {
  packFiles,
  packTests,
  type RenderedFile,
  type RenderedTest,
  renderFiles,
  type TestTexts,
} from '../domain/judged_record.ts';
import { sameJson } from '../domain/strict_json.ts';

/** The fields of a test that are bytes of a user, and not facts. They are null after a purge. */
const TEXTS = ['name', 'group', 'message', 'stdout', 'stderr'];

/** What facts say of the tests. */
export const withoutTexts = (tests: unknown): unknown =>
  Array.isArray(tests) ? tests.map(withoutText) : tests;

const withoutText = (test: unknown) =>
  typeof test === 'object' && test !== null
    ? Object.fromEntries(
        Object.entries(test).map(([name, value]) => [name, TEXTS.includes(name) ? null : value]),
      )
    : test;

/** How the outputs of a record are read: the service gives all of them as text, or all as base64. */
export type Reading = 'utf8' | 'base64';

/** The bytes that an output of a record stands for. Null: it stands for none. */
export function outputBytes(output: unknown, reading: Reading): Uint8Array | null {
  // Node reads base64 with anything behind it.
  if (typeof output !== 'string' || (reading === 'base64' && !isBase64(output))) return null;
  return Buffer.from(output, reading);
}

/** If all texts of all tests are null, they claim nothing. */
export const claimTexts = (tests: unknown): tests is readonly unknown[] =>
  Array.isArray(tests) && !tests.every(hasNoTexts);

/** The payload of kind `tests` that these are of. Null: none, because one payload has all texts, and these have only some. */
export function packedTests(tests: readonly unknown[], reading: Reading): Uint8Array | null {
  const read: TestTexts[] = [];
  for (const test of tests) {
    if (!hasTexts(test)) return null;
    const { name, group, message } = test;
    const stdout = outputBytes(test.stdout, reading);
    const stderr = outputBytes(test.stderr, reading);
    if (stdout === null || stderr === null) return null;
    read.push({ name: name!, group: group!, message, stdout, stderr });
  }
  return packTests(read);
}

const hasNoTexts = (test: unknown) =>
  TEXTS.every((name) => (test as Record<string, unknown> | null)?.[name] === null);

const isBase64 = (text: string) => Buffer.from(text, 'base64').toString('base64') === text;

function hasTexts(test: unknown): test is RenderedTest {
  const { name, group, stdout, stderr } = (test ?? {}) as RenderedTest;
  return [name, group, stdout, stderr].every((text) => typeof text === 'string');
}

/** Null if a size or a hash in the record is not that of its file. */
export function packedFiles(files: unknown): Uint8Array | null {
  if (!Array.isArray(files) || !files.every(hasContent)) return null;
  const packed = packFiles(
    files.map(({ path, content_base64 }) => ({
      path,
      bytes: Buffer.from(content_base64, 'base64'),
    })),
  );
  return sameJson(renderFiles(packed), files) ? packed : null;
}

const hasContent = (file: unknown): file is RenderedFile & { content_base64: string } =>
  typeof (file as RenderedFile | null)?.content_base64 === 'string';
