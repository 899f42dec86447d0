/**
 * What a request says about judging, and its form as the payload of kind `judging`: JSON that leaves out what the request
 * leaves out. A request that says nothing about judging has no such payload. Equal requests have equal payloads, because
 * names come in one order and bytes have one form: text where they are UTF-8 and that is not longer, else base64. So the
 * payload can stand for the request in a digest.
 */
import { isUtf8 } from 'node:buffer';
import type { LanguageName, LimitOverrides } from '../domain/limits.ts';
import type { Compare } from './compare.ts';

export type JudgingRequest = {
  files: RequestFile[];
  tests: RequestTest[] | null;
  /** the id of a stored set, instead of tests */
  test_set: string | null;
  /** null without tests and set */
  stop: 'first' | 'never' | null;
  /** null: that of the set, or else that of the submission */
  compare: Compare | null;
  checker: RequestProgram | null;
  interactor: RequestProgram | null;
  stdin_file: string | null;
  stdout_file: string | null;
  outputs: string[];
  transcript: boolean;
};

export type RequestFile = { path: string; bytes: Uint8Array };

export type RequestTest = {
  /** null: its number */
  name: string | null;
  stdin: Uint8Array;
  /** null: every output is right */
  expected_output: Uint8Array | null;
  /** null: those of the submission */
  args: string[] | null;
  limits: LimitOverrides;
};

export type RequestProgram = {
  language: LanguageName;
  /** the path of its main source, which is one of `files` */
  source: string;
  files: RequestFile[];
  protocol: 'icpc' | 'testlib';
};

export const NOT_JUDGED: JudgingRequest = {
  files: [],
  tests: null,
  test_set: null,
  stop: null,
  compare: null,
  checker: null,
  interactor: null,
  stdin_file: null,
  stdout_file: null,
  outputs: [],
  transcript: false,
};

/** Null if the request asks for no judging: an empty list is like no list. */
export function packRequest(request: JudgingRequest): Uint8Array | null {
  const packed = packedOf(request);
  return Object.keys(packed).length === 0 ? null : Buffer.from(JSON.stringify(packed));
}

export function unpackRequest(bytes: Uint8Array): JudgingRequest {
  const packed = JSON.parse(Buffer.from(bytes).toString()) as Packed;
  const { files, tests, checker, interactor, ...rest } = packed;
  return {
    ...NOT_JUDGED,
    ...rest,
    ...(files && { files: files.map(unpackFile) }),
    ...(tests && { tests: tests.map(unpackTest) }),
    ...(checker && { checker: unpackProgram(checker) }),
    ...(interactor && { interactor: unpackProgram(interactor) }),
  };
}

/** Text, or base64 as the only item of a list. */
type PackedBytes = string | [base64: string];
type PackedFile = [path: string, bytes: PackedBytes];
type PackedTest = {
  name?: string;
  stdin?: PackedBytes;
  expected_output?: PackedBytes;
  args?: string[];
  limits?: LimitOverrides;
};
type PackedProgram = Omit<RequestProgram, 'files'> & { files: PackedFile[] };
type Packed = {
  files?: PackedFile[];
  tests?: PackedTest[];
  test_set?: string;
  stop?: 'first' | 'never';
  compare?: Compare;
  checker?: PackedProgram;
  interactor?: PackedProgram;
  stdin_file?: string;
  stdout_file?: string;
  outputs?: string[];
  transcript?: true;
};

function packedOf(request: JudgingRequest): Packed {
  const { files, tests, test_set, stop, compare, checker, interactor } = request;
  const { stdin_file, stdout_file, outputs, transcript } = request;
  return {
    ...(files.length > 0 && { files: files.map(packFile) }),
    ...(tests !== null && { tests: tests.map(packTest) }),
    ...(test_set !== null && { test_set }),
    ...(stop !== null && { stop }),
    ...(compare !== null && { compare: packCompare(compare) }),
    ...(checker !== null && { checker: packProgram(checker) }),
    ...(interactor !== null && { interactor: packProgram(interactor) }),
    ...(stdin_file !== null && { stdin_file }),
    ...(stdout_file !== null && { stdout_file }),
    ...(outputs.length > 0 && { outputs }),
    ...(transcript && { transcript }),
  };
}

function packTest({ name, stdin, expected_output, args, limits }: RequestTest): PackedTest {
  return {
    ...(name !== null && { name }),
    ...(stdin.length > 0 && { stdin: packBytes(stdin) }),
    ...(expected_output !== null && { expected_output: packBytes(expected_output) }),
    ...(args !== null && { args }),
    ...(Object.keys(limits).length > 0 && { limits: inOrder(limits) }),
  };
}

function unpackTest({ name, stdin, expected_output, args, limits }: PackedTest): RequestTest {
  return {
    name: name ?? null,
    stdin: unpackBytes(stdin ?? ''),
    expected_output: expected_output === undefined ? null : unpackBytes(expected_output),
    args: args ?? null,
    limits: limits ?? {},
  };
}

function packProgram({ language, source, files, protocol }: RequestProgram): PackedProgram {
  return { language, source, protocol, files: files.map(packFile) };
}

function unpackProgram({ files, ...program }: PackedProgram): RequestProgram {
  return { ...program, files: files.map(unpackFile) };
}

function packFile({ path, bytes }: RequestFile): PackedFile {
  return [path, packBytes(bytes)];
}

function unpackFile([path, bytes]: PackedFile): RequestFile {
  return { path, bytes: unpackBytes(bytes) };
}

function packCompare(compare: Compare): Compare {
  return typeof compare === 'string' ? compare : inOrder(compare);
}

function inOrder<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))) as T;
}

function packBytes(bytes: Uint8Array): PackedBytes {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const base64 = buffer.toString('base64');
  if (!isUtf8(buffer)) return [base64];
  const text = buffer.toString();
  // A text of control characters is six times as long in JSON as its bytes are.
  return JSON.stringify(text).length > base64.length + 4 ? [base64] : text;
}

function unpackBytes(packed: PackedBytes): Uint8Array {
  return typeof packed === 'string' ? Buffer.from(packed) : Buffer.from(packed[0], 'base64');
}
