/**
 * The fields of a submission that is judged: files, tests, comparison, checker, interactor. `judgingEntries` are entries of
 * the submission's schema; `judgingClashes` are the rules that hold between fields, and those that need the raw body. Every
 * error names the item: `tests[3].args`.
 */
import * as v from 'valibot';
import { OUTPUTS_BYTES, OUTPUTS_MOST_FILES } from '../../domain/launcher_bounds.ts';
import { isTolerance } from '../../judging/decimals.ts';
import {
  ANY_PATTERN,
  DEEP_PATTERN,
  folderProblems,
  leftFileProblem,
  type NamedPath,
  PATH_LIMIT_BYTES,
  PATH_LIMIT_NAMES,
  PATH_PATTERN,
  pathProblem,
  patternProblem,
} from '../../judging/paths.ts';
import { acceptedNames, BY_NAME, CANONICAL_NAMES } from '../../languages/common/registry.ts';
import type { FieldError } from '../wire/problem.ts';
import { type FieldRule, ruled } from './field_rules.ts';
import {
  argsSchema,
  base64,
  base64Bytes,
  count,
  isWellFormed,
  LONE_SURROGATE,
  limitsSchema,
  object,
  optional,
  type RequestBounds,
  TEXT_LIMIT_BYTES,
  text,
} from './field_schemas.ts';

export const FILES_LIMIT = 64;
export const FILES_LIMIT_BYTES = 1_048_576;
export const TESTS_LIMIT = 256;
export const OUTPUTS_LIMIT = 16;
export const TEST_NAME_LIMIT_BYTES = 100;

/** Rules between the fields of a submission that is judged. */
export const JUDGING_RULES: readonly FieldRule[] = [
  ...['stdin', 'stdin_base64', 'expected_output'].map((field) => ({
    field,
    not_with: ['tests', 'test_set'],
    because: 'each test has its own',
  })),
  { field: 'test_set', not_with: ['tests'] },
  {
    field: 'outputs',
    not_with: ['tests', 'test_set'],
    because: 'files are kept of a single run',
  },
  { field: 'compare', not_with: ['checker', 'interactor'], because: 'that program compares' },
  { field: 'interactor', not_with: ['checker'], because: 'an interactor judges, too' },
  ...['stdin_file', 'stdout_file'].map((field) => ({
    field,
    not_with: ['interactor'],
    because: 'an interactor talks through pipes',
  })),
  { field: 'stop', only_with: ['tests', 'test_set'] },
  { field: 'transcript', only_with: ['interactor', 'test_set'] },
  { field: 'transcript', not_with: ['outputs'], because: 'a run keeps one of them', if_true: true },
];

export function judgingEntries(rules: { languages: readonly string[]; bounds: RequestBounds }) {
  const protocol = v.picklist(['icpc', 'testlib'], 'must be icpc or testlib');
  const program = () =>
    object({
      language: languageName(rules.languages),
      code: text(`Source code, at most ${count(TEXT_LIMIT_BYTES)} bytes of UTF-8.`),
      files: optional(filesSchema()),
      protocol: described(
        protocol,
        'icpc: exit code 42 is right and 43 is wrong. testlib: 0 is right, 1 and 2 are wrong, 7 gives points. Where an uncaught exception exits with 1, testlib takes it for wrong: use icpc in such a language, or catch exceptions and exit with 3.',
      ),
    });
  return {
    files: optional(filesSchema()),
    tests: optional(testsSchema(rules.bounds)),
    test_set: optional(
      described(
        v.pipe(v.string('must be a string'), v.uuid('must be the id of a test set, a UUID')),
        'The id of a stored test set, instead of tests.',
      ),
    ),
    stop: optional(
      described(
        v.picklist(['first', 'never'], 'must be first or never'),
        'first (the default): tests after the first that is not AC are not run. never: all are run.',
      ),
    ),
    compare: optional(compareSchema()),
    checker: optional(described(program(), 'A program that judges each output.')),
    interactor: optional(
      described(program(), 'A program that talks with the submitted one and judges it.'),
    ),
    stdin_file: optional(
      path('The input is in this file of the work folder, as well as on stdin.'),
    ),
    stdout_file: optional(leftFile('This file of the work folder is judged, instead of stdout.')),
    outputs: optional(outputsSchema()),
    transcript: optional(
      described(
        v.boolean('must be true or false'),
        'Whether the beginning of the talk with the interactor is kept.',
      ),
    ),
  };
}

export type JudgingFields = v.InferOutput<
  v.StrictObjectSchema<ReturnType<typeof judgingEntries>, undefined>
>;

function filesSchema() {
  const file = ruled(
    object({
      path: path('Its path in the work folder.'),
      content: optional(text('UTF-8.', FILES_LIMIT_BYTES)),
      content_base64: optional(base64(FILES_LIMIT_BYTES, 'Its bytes, instead of content.')),
    }),
    [
      { field: 'content_base64', not_with: ['content'] },
      { field: 'content', or: 'content_base64' },
    ],
  );
  return v.pipe(
    v.array(file, 'must be a list of files'),
    v.maxLength(FILES_LIMIT, `has more than ${FILES_LIMIT} items`),
    v.check(
      (files) => files.reduce((sum, each) => sum + sizeOf(each), 0) <= FILES_LIMIT_BYTES,
      `is more than ${FILES_LIMIT_BYTES} bytes in all`,
    ),
    v.metadata({
      description: `Files of the work folder, when it compiles and when it runs: at most ${FILES_LIMIT}, and ${count(FILES_LIMIT_BYTES)} bytes in all. Each has a relative path and either content or content_base64.`,
      // No two can have the same path. JSON Schema can say that only of whole files.
      uniqueItems: true,
    }),
  );
}

function sizeOf(file: { content?: string | null; content_base64?: string | null }): number {
  return Buffer.byteLength(file.content ?? '') + base64Bytes(file.content_base64 ?? '');
}

function testsSchema(bounds: RequestBounds) {
  const size = `at most ${count(TEXT_LIMIT_BYTES)} bytes`;
  const test = ruled(
    object({
      name: optional(testName()),
      stdin: optional(text(`Standard input, ${size} of UTF-8.`)),
      stdin_base64: optional(
        base64(TEXT_LIMIT_BYTES, `Standard input as base64, instead of stdin; ${size}.`),
      ),
      expected_output: optional(text(`The output that AC needs, ${size} of UTF-8.`)),
      expected_output_base64: optional(
        base64(TEXT_LIMIT_BYTES, `The same as base64, instead of expected_output; ${size}.`),
      ),
      args: optional(argsSchema()),
      limits: optional(limitsSchema(bounds)),
    }),
    ['stdin', 'expected_output'].map((name) => ({ field: `${name}_base64`, not_with: [name] })),
  );
  return v.pipe(
    v.array(test, 'must be a list of tests'),
    v.minLength(1, 'has no items'),
    v.maxLength(TESTS_LIMIT, `has more than ${TESTS_LIMIT} items`),
    v.description(
      `1 to ${TESTS_LIMIT} tests, run in order after one compile. A test that has no args or limits of its own has those of the submission.`,
    ),
  );
}

function testName() {
  return v.pipe(
    v.string('must be a string'),
    v.check(isWellFormed, LONE_SURROGATE),
    v.check((name) => {
      const bytes = Buffer.byteLength(name);
      return bytes >= 1 && bytes <= TEST_NAME_LIMIT_BYTES;
    }, `must be 1 to ${TEST_NAME_LIMIT_BYTES} bytes of UTF-8`),
    v.check(hasNoControl, 'has a control character'),
    v.metadata({
      description: 'Its name in the record; its number if absent.',
      minLength: 1,
      maxLength: TEST_NAME_LIMIT_BYTES,
      pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
    }),
  );
}

const hasNoControl = (value: string) => !/\p{Cc}/u.test(value);

const COMPARE_WORDS = ['lines', 'lenient', 'exact'] as const;
const COMPARE_FORMS = 'must be lines, exact or an object with by: tokens';

function compareSchema() {
  const tolerance = (description: string) =>
    v.pipe(
      v.number('must be a number'),
      v.check(isTolerance, 'must be a number from 0'),
      v.metadata({ description, minimum: 0 }),
    );
  const tokens = object({
    by: v.literal('tokens', 'must be tokens'),
    case_sensitive: optional(
      described(v.boolean('must be true or false'), 'True unless it is given.'),
    ),
    absolute: optional(tolerance('Numbers may differ by this much.')),
    relative: optional(tolerance('Or by this share of the expected number.')),
  });
  return v.pipe(
    v.union([v.picklist(COMPARE_WORDS), tokens], COMPARE_FORMS),
    v.description(
      'lines (the default; lenient is the same) ignores white space at the ends of lines and of the text. exact compares every byte. tokens compares what white space separates.',
    ),
  );
}

const PATH_KEYWORDS = { minLength: 1, maxLength: PATH_LIMIT_BYTES, pattern: PATH_PATTERN };

function outputsSchema() {
  return v.pipe(
    v.array(
      v.pipe(
        v.string('must be a string'),
        problemCheck(patternProblem),
        v.metadata({ ...PATH_KEYWORDS, not: { pattern: DEEP_PATTERN } }),
      ),
      'must be a list of patterns',
    ),
    v.maxLength(OUTPUTS_LIMIT, `has more than ${OUTPUTS_LIMIT} items`),
    v.description(
      `Files of the work folder to keep when the run ends, as at most ${OUTPUTS_LIMIT} patterns; * stands for any characters but /. Not with tests. At most ${OUTPUTS_MOST_FILES} files with ${OUTPUTS_BYTES / 2 ** 20} MiB together are kept: what is beyond that is left out, and so is a file whose name is not UTF-8.`,
    ),
  );
}

const PATH_RULE = `A relative path of at most ${PATH_LIMIT_BYTES} bytes of UTF-8 and ${PATH_LIMIT_NAMES} names, without an empty name, . or .. in it.`;

function path(description: string) {
  return v.pipe(
    v.string('must be a string'),
    problemCheck(pathProblem),
    v.metadata({ description: `${description} ${PATH_RULE}`, ...PATH_KEYWORDS }),
  );
}

function leftFile(description: string) {
  return v.pipe(
    v.string('must be a string'),
    problemCheck(leftFileProblem),
    v.metadata({
      description: `${description} ${PATH_RULE} It has no *.`,
      ...PATH_KEYWORDS,
      // Only of text: a null has no pattern, so it would fit.
      not: { type: 'string', pattern: ANY_PATTERN },
    }),
  );
}

function problemCheck(problemOf: (value: string) => string | null) {
  return v.check<string, (issue: v.CheckIssue<string>) => string>(
    (value) => problemOf(value) === null,
    ({ input }) => problemOf(input) ?? '',
  );
}

function languageName(languages: readonly string[]) {
  const names = acceptedNames(languages);
  return v.picklist(names, `must be one of ${names.join(', ')}`);
}

function described<S extends v.GenericSchema>(schema: S, description: string) {
  return v.pipe(schema, v.description(description)) as unknown as S;
}

type Raw = Record<string, unknown>;

const OBJECTS = ['compare', 'checker', 'interactor'];
const LISTS = ['files', 'tests'];
const PATHS = ['stdin_file', 'stdout_file'];
/** Most submissions have none of these, and no mistake that judgingClashes() looks for. */
const LOOKED_AT = [...OBJECTS, ...LISTS, ...PATHS];

/** Mistakes that no schema sees. The body may be anything but has no nulls: what has the wrong type is left to the schema. */
export function judgingClashes(body: unknown): FieldError[] {
  if (!isObject(body) || !LOOKED_AT.some((name) => name in body)) return [];
  const errors: FieldError[] = [];
  const add = (at: string, message: string) => errors.push({ path: at, message });
  for (const { at, value } of objectsOf(body)) {
    if (Array.isArray(value)) add(at, 'must be an object');
  }
  const named = PATHS.flatMap((name) =>
    typeof body[name] === 'string' ? [{ at: name, path: body[name] }] : [],
  );
  errors.push(...folderErrors(body, '', named));
  for (const name of ['checker', 'interactor']) {
    const program = body[name];
    if (isObject(program)) errors.push(...folderErrors(program, `${name}.`, []));
  }
  return errors;
}

/** The mistakes in one work folder: paths that clash. */
function folderErrors(program: Raw, prefix: string, more: readonly NamedPath[]): FieldError[] {
  const errors: FieldError[] = [];
  const paths: NamedPath[] = [];
  for (const [index, file] of itemsOf(program['files'])) {
    const at = `${prefix}files[${index}]`;
    if (typeof file['path'] === 'string') paths.push({ at: `${at}.path`, path: file['path'] });
  }
  const { source = null, artefact = null } = languageOf(program['language']) ?? {};
  for (const { at, path } of paths) {
    if (artefact === null || !path.startsWith(`${artefact}/`)) continue;
    const message = `is within ${JSON.stringify(artefact)}, which is the compiled program`;
    errors.push({ path: at, message });
  }
  paths.push(...more);
  const sound = paths.filter(({ path }) => pathProblem(path) === null);
  for (const { at, message } of folderProblems(sound, source)) errors.push({ path: at, message });
  return errors;
}

function languageOf(language: unknown) {
  const name = typeof language === 'string' ? CANONICAL_NAMES.get(language) : undefined;
  return name === undefined ? undefined : BY_NAME.get(name);
}

/** Where the schema wants an object: it would accept a list as an object without names. */
function objectsOf(body: Raw): { at: string; value: unknown }[] {
  const found = OBJECTS.map((at) => ({ at, value: body[at] }));
  const items = (list: unknown, at: string) =>
    Array.isArray(list) ? list.map((value, index) => ({ at: `${at}[${index}]`, value })) : [];
  found.push(...LISTS.flatMap((at) => items(body[at], at)));
  for (const [index, { limits }] of itemsOf(body['tests'])) {
    found.push({ at: `tests[${index}].limits`, value: limits });
  }
  for (const at of ['checker', 'interactor']) {
    const program = body[at];
    if (isObject(program)) found.push(...items(program['files'], `${at}.files`));
  }
  return found;
}

function itemsOf(list: unknown): [number, Raw][] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((item, index): [number, Raw][] => (isObject(item) ? [[index, item]] : []));
}

const isObject = (value: unknown): value is Raw =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
