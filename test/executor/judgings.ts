/** Judgings for tests of the executor, and a store of contents in memory. */
import { createHash } from 'node:crypto';
import { chmod, open } from 'node:fs/promises';
import type { FetchContent } from '../../src/executor/content_cache.ts';
import type { Content, JudgedTest, JudgeProgram, Judging } from '../../src/judging/judging.ts';
import type { Group } from '../../src/judging/test_set.ts';

const PLAIN: Judging = {
  files: [],
  tests: null,
  groups: [],
  scoring: 'pass-fail',
  passes: 1,
  stop: 'first',
  compare: 'lines',
  checker: null,
  interactor: null,
  stdin_file: null,
  stdout_file: null,
  outputs: [],
  transcript: false,
  limits: {},
};

export const judging = (more: Partial<Judging> = {}): Judging => ({ ...PLAIN, ...more });

export const content = (text: string): Content => ({ bytes: Buffer.from(text) });

export function aTest(input: string, answer: string | null, more: Partial<JudgedTest> = {}) {
  const test: JudgedTest = {
    name: `test ${input.trim()}`,
    group: '',
    input: content(input),
    answer: answer === null ? null : content(answer),
    args: null,
    limits: {},
    compare: null,
    judge_args: [],
  };
  return { ...test, ...more };
}

export function group(name: string, more: Partial<Group> = {}): Group {
  return {
    ...{ name, parent: null, on_reject: 'break', aggregation: 'sum' },
    ...{ accept_score: 1, reject_score: 0, args: [] },
    ...more,
  };
}

/** Of one source, and of other files by their paths. */
export function aJudge(
  language: string,
  code: string,
  more: Partial<Omit<JudgeProgram, 'files'>> & { others?: Record<string, string> } = {},
): JudgeProgram {
  const { others = {}, ...rest } = more;
  const source = rest.source ?? 'judge';
  const files = Object.entries({ [source]: code, ...others });
  return {
    ...{ language, source, protocol: 'icpc', args: [], limits: null },
    ...rest,
    files: files.map(([path, text]) => ({ path, content: content(text) })),
  };
}

/** Keeps contents by their hash, and counts how often they are fetched. They come in pieces of `piece` bytes, or in four. */
export function contentStore(piece?: number) {
  const stored = new Map<string, Buffer>();
  const fetched: string[] = [];
  const fetch: FetchContent = async function* ({ sha256 }) {
    fetched.push(sha256);
    const bytes = stored.get(sha256);
    if (bytes === undefined) throw new Error(`${sha256} is not stored`);
    const size = piece ?? (Math.ceil(bytes.length / PIECES) || 1);
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };
  return {
    fetch,
    fetched,
    put(text: string | Uint8Array): Extract<Content, { file: unknown }> {
      const bytes = Buffer.from(text as string);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      stored.set(sha256, bytes);
      return { file: { sha256, size: bytes.length } };
    },
    /** From now on these bytes come under the hash of others. */
    forge: (sha256: string, text: string) => stored.set(sha256, Buffer.from(text)),
  };
}

const PIECES = 4;

/** Changes one byte of the file in place. */
export async function damage(path: string, at: number): Promise<void> {
  await chmod(path, 0o644);
  const handle = await open(path, 'r+');
  const byte = Buffer.alloc(1);
  await handle.read(byte, 0, 1, at);
  await handle.write(Buffer.from([byte[0]! ^ 1]), 0, 1, at);
  await handle.close();
}
