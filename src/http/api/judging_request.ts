/** From the fields of a valid body to bytes, limits and what the request says about judging. */
import { type LimitOverrides, REQUEST_LIMITS } from '../../domain/limits.ts';
import type { Compare } from '../../judging/compare.ts';
import type {
  JudgingRequest,
  RequestFile,
  RequestProgram,
  RequestTest,
} from '../../judging/packed_request.ts';
import type { TokenCompare } from '../../judging/tokens.ts';
import { BY_NAME, CANONICAL_NAMES } from '../../languages/common/registry.ts';
import type { SubmissionBody } from './submission_schema.ts';

export function judgingRequestOf(body: SubmissionBody): JudgingRequest {
  const { tests, test_set, checker, interactor, stdin_file, stdout_file } = body;
  const has_tests = tests !== undefined || test_set !== undefined;
  return {
    files: filesOf(body.files),
    tests: tests?.map(testOf) ?? null,
    test_set: test_set?.toLowerCase() ?? null,
    stop: has_tests ? (body.stop ?? 'first') : null,
    compare: judgedCompare(body),
    checker: checker === undefined ? null : programOf(checker),
    interactor: interactor === undefined ? null : programOf(interactor),
    stdin_file: stdin_file ?? null,
    stdout_file: stdout_file ?? null,
    outputs: body.outputs ?? [],
    transcript: body.transcript ?? false,
  };
}

/** As it is stored with the submission: `lines` is stored as `lenient`, its older word. */
export function storedCompare({ compare }: SubmissionBody): 'lenient' | 'exact' | TokenCompare {
  if (typeof compare === 'object') return tokenCompare(compare);
  return compare === 'exact' ? 'exact' : 'lenient';
}

/** A comparison that a plain run does not have, or that takes the place of a set's. */
function judgedCompare({ compare, test_set }: SubmissionBody): Compare | null {
  if (typeof compare === 'object') return tokenCompare(compare);
  if (compare === undefined || test_set === undefined) return null;
  return compare === 'exact' ? 'exact' : 'lines';
}

type AskedTokens = Exclude<NonNullable<SubmissionBody['compare']>, string>;

function tokenCompare({ case_sensitive = true, absolute, relative }: AskedTokens): TokenCompare {
  return { by: 'tokens', case_sensitive, absolute: absolute ?? null, relative: relative ?? null };
}

function testOf(test: NonNullable<SubmissionBody['tests']>[number]): RequestTest {
  return {
    name: test.name ?? null,
    stdin: bytesOf(test.stdin, test.stdin_base64) ?? Buffer.alloc(0),
    expected_output: bytesOf(test.expected_output, test.expected_output_base64),
    args: test.args ?? null,
    limits: limitsOf(test.limits ?? {}),
  };
}

function programOf(program: NonNullable<SubmissionBody['checker']>): RequestProgram {
  const language = CANONICAL_NAMES.get(program.language)!;
  const { source } = BY_NAME.get(language)!;
  const main = { path: source, bytes: Buffer.from(program.code) };
  return {
    language,
    source,
    files: [main, ...filesOf(program.files)],
    protocol: program.protocol,
  };
}

function filesOf(files: SubmissionBody['files'] = []): RequestFile[] {
  return files.map(({ path, content, content_base64 }) => ({
    path,
    bytes: bytesOf(content, content_base64)!,
  }));
}

/** Null if neither is there. */
export function bytesOf(text: string | undefined, base64: string | undefined): Uint8Array | null {
  if (text !== undefined) return Buffer.from(text);
  return base64 === undefined ? null : Buffer.from(base64, 'base64');
}

/** Seconds of the API become whole milliseconds. */
export function limitsOf(limits: NonNullable<SubmissionBody['limits']>): LimitOverrides {
  const overrides: LimitOverrides = {};
  for (const { name, stored, unit } of REQUEST_LIMITS) {
    const value = limits[name];
    if (value !== undefined) overrides[stored] = unit === 'ms' ? Math.round(value * 1000) : value;
  }
  return overrides;
}
