/** Mutants of the way from a judged request to its payload, its digest and its judging. */
import { inFile, type Mutant } from './mutant.ts';

const PARSE = 'test/http/parse_submission.test.ts';
const PACKED = 'test/judging/packed_request.test.ts';
const JUDGING_OF = 'test/judging/judging_of.test.ts';

export const judgedRequestMutants: readonly Mutant[] = [
  ...inFile(
    'src/http/api/parse_submission.ts',
    PARSE,
    [
      'requests that ask for other judging have other digests',
      'judging === null ? parts : [...parts, judging.packed]',
      'parts',
    ],
    [
      'an unknown field of a test is named',
      'if (item) namesOutside(item, each,',
      'if (n < 0 && item) namesOutside(item, each,',
    ],
    ['mistakes between fields are named', '      ...judgingClashes(given),\n', ''],
    ['arguments of each test are bounded before they are checked', "  ['args', ARGS_LIMIT],\n", ''],
  ),
  ...inFile(
    'src/http/api/forbidden_fields.ts',
    PARSE,
    ['a forbidden field is forbidden in a checker', "'tests', 'checker',", "'tests',"],
    ['and in each test', 'Array.isArray(inner)', 'false'],
  ),
  ...inFile(
    'src/http/api/judging_request.ts',
    PARSE,
    ['lines is stored as lenient', "compare === 'exact' ? 'exact' : 'lenient';", "'exact';"],
    [
      'a comparison takes the place of a set\u2019s',
      'compare === undefined || test_set === undefined',
      'compare === undefined || test_set !== null',
    ],
    ['stop is first by default', "(body.stop ?? 'first')", "(body.stop ?? 'never')"],
    ['seconds of a limit become milliseconds', 'Math.round(value * 1000)', 'Math.round(value)'],
    ['an id of a set has one spelling', 'test_set?.toLowerCase()', 'test_set'],
  ),
  ...inFile(
    'src/judging/packed_request.ts',
    PACKED,
    ['bytes that are no text survive', 'if (!isUtf8(buffer)) return [base64];', ''],
    [
      'control characters are not six times as long',
      'JSON.stringify(text).length > base64.length + 4',
      'text.length < 0',
    ],
    ['text is stored as text', '? [base64] : text', '? [base64] : [base64]'],
    [
      'a request without judging has no payload',
      'Object.keys(packed).length === 0 ? null :',
      'Object.keys(packed).length < 0 ? null :',
    ],
    [
      'an empty answer is an answer',
      'expected_output !== null && {',
      'expected_output?.length && {',
    ],
    ['the order of names is the same', '.sort(([a], [b]) => (a < b ? -1 : 1))', ''],
  ),
  ...inFile(
    'src/judging/judging_of.ts',
    JUDGING_OF,
    [
      'a checker of the request takes the place of the set\u2019s',
      'checker !== null || interactor !== null;',
      'interactor !== null;',
    ],
    ['a comparison does not replace an interactor', 'set.interactor !== null ?', 'false ?'],
    ['a set without an interactor may be compared', 'set.interactor !== null ?', 'true ?'],
    [
      'a test of a set has the arguments of its group',
      'checker_args ?? group_args',
      'checker_args ?? []',
    ],
    [
      'a comparison of a test goes with that of its set',
      'replaced ? null : (compare ?? null)',
      '(compare ?? null)',
    ],
    [
      'arguments of a checker go with that of the set',
      'replaced ? [] : (checker_args',
      '(checker_args',
    ],
    ['a test without a name has its number', 'String(index + 1)', 'String(index)'],
    ['a set has its passes', 'passes: set.passes', 'passes: 1'],
  ),
];
