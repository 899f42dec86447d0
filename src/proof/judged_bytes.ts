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

/**
 * The payloads of kind `tests` that these can be of: their outputs may be text or base64. Null if all texts of all tests are
 * null: they then claim nothing. One payload has all texts, so none of it is of tests that have only some.
 */
export function packedTests(tests: unknown): Uint8Array[] | null {
  if (!Array.isArray(tests) || tests.every(hasNoTexts)) return null;
  if (!tests.every(hasTexts)) return [];
  const is_base64 = tests.every(({ stdout, stderr }) => isBase64(stdout!) && isBase64(stderr!));
  // Node reads base64 with anything behind it.
  return (is_base64 ? (['utf8', 'base64'] as const) : (['utf8'] as const)).map((encoding) =>
    packTests(
      tests.map(({ name, group, message, stdout, stderr }) => ({
        ...{ name: name!, group: group!, message },
        ...{ stdout: Buffer.from(stdout!, encoding), stderr: Buffer.from(stderr!, encoding) },
      })),
    ),
  );
}

const hasNoTexts = (test: unknown) =>
  TEXTS.every((name) => (test as Record<string, unknown> | null)?.[name] === null);

const isBase64 = (text: string) => Buffer.from(text, 'base64').toString('base64') === text;

function hasTexts(test: unknown): test is RenderedTest {
  const { name, group, stdout, stderr } = (test ?? {}) as RenderedTest;
  return [name, group, stdout, stderr].every((text) => typeof text === 'string');
}

/** None if a size or a hash in the record is not that of its file. */
export function packedFiles(files: unknown): Uint8Array[] {
  if (!Array.isArray(files) || !files.every(hasContent)) return [];
  const packed = packFiles(
    files.map(({ path, content_base64 }) => ({
      path,
      bytes: Buffer.from(content_base64, 'base64'),
    })),
  );
  return sameJson(renderFiles(packed), files) ? [packed] : [];
}

const hasContent = (file: unknown): file is RenderedFile & { content_base64: string } =>
  typeof (file as RenderedFile | null)?.content_base64 === 'string';
