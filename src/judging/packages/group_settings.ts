/**
 * Reads the settings of a group of tests: testdata.yaml of the legacy version, test_group.yaml of the newer ones. For a
 * year the draft of 2023-07 had testdata.yaml, too, and there are packages of it: they have the keys of both.
 *
 * In the newer versions, arguments are inherited key by key and scores are not. The legacy document says only that a
 * group without a file uses that of its parent; the tools that check packages inherit each key that a file leaves out,
 * and packages rely on it, so this does the same. A flag of the root alone is not inherited.
 */
import type { JudgedGroup } from '../groups.ts';
import { graderFromFlags } from '../score.ts';
import type { FormatVersion } from './format_version.ts';
import { flagsOf, type ProblemSettings } from './problem_settings.ts';
import { type Settings, toNumber, wordsOf } from './settings.ts';

export type GroupSettings = {
  group: Omit<JudgedGroup, 'name' | 'parent'>;
  validator_args: string[];
  program_args: string[];
  /** of the root: the samples count for no score */
  ignore_sample: boolean;
  /** of the newer versions */
  scoring: ScoreSettings;
};

export type ScoreSettings = {
  max: number | 'unbounded' | null;
  aggregation: 'pass-fail' | 'sum' | 'min' | null;
  require_pass: string[];
};

/** Whose settings the groups of a package have. */
export type GroupRules = 'testdata.yaml' | 'test_group.yaml';

export type GroupPlace = {
  problem: ProblemSettings;
  rules: GroupRules;
  /** below `data`; null for `data` itself */
  top: 'sample' | 'secret' | null;
  parent: GroupSettings | null;
  /** null where the default validator judges */
  validator_name: string | null;
};

const DEFAULTS: GroupSettings = {
  group: { on_reject: 'break', aggregation: 'sum', accept_score: 1, reject_score: 0 },
  validator_args: [],
  program_args: [],
  ignore_sample: false,
  scoring: { max: null, aggregation: null, require_pass: [] },
};

export function readGroupSettings(settings: Settings, place: GroupPlace): GroupSettings {
  return place.rules === 'testdata.yaml' ? readOld(settings, place) : readNew(settings, place);
}

const SCORE = { min: -1e15, max: 1e15 };
const FOR_SCORES = ['accept_score', 'reject_score', 'range'];

function readOld(settings: Settings, place: GroupPlace): GroupSettings {
  const { problem, top, parent } = place;
  const is_draft = problem.version !== 'legacy';
  settings.allow(
    'on_reject',
    'grading',
    'grader_flags',
    'input_validator_flags',
    'output_validator_flags',
    ...FOR_SCORES,
    ...(is_draft ? SHARED : []),
  );
  if (settings.oneOf('grading', ['default', 'custom']) === 'custom') {
    throw settings.problem('grading', 'a custom grader is not supported');
  }
  if (!problem.scoring) {
    for (const key of FOR_SCORES) settings.reject(key, 'is for problems of type scoring only');
  }
  const inherited = parent ?? DEFAULTS;
  const { group } = inherited;
  const { ignore_sample, ...grader } = readGrader(settings, place);
  const of_problem = parent === null ? gradingOf(problem.grading) : {};
  const range = rangeOf(settings);
  return {
    ...DEFAULTS,
    group: {
      ...withoutUnscored(group),
      ...(settings.has('grader_flags') || parent === null ? grader : {}),
      ...of_problem,
      ...present({
        on_reject: settings.oneOf('on_reject', ['break', 'continue']),
        accept_score: settings.number('accept_score', SCORE),
        reject_score: settings.number('reject_score', SCORE),
      }),
      ...(range === null ? {} : { range }),
      ...(top === 'sample' && inherited.ignore_sample ? { unscored: true as const } : {}),
    },
    validator_args: oldValidatorArgs(settings, place) ?? inherited.validator_args,
    program_args: settings.strings('args') ?? inherited.program_args,
    ignore_sample: top === null && (ignore_sample || (is_draft && problem.scoring)),
  };
}

/** What older documents have in problem.yaml. */
function gradingOf(grading: Settings): Partial<GroupSettings['group']> {
  const range = rangeOf(grading);
  const on_reject = grading.oneOf('on_reject', ['first_error', 'worst_error', 'grade']);
  return {
    ...present({
      on_reject: on_reject && (on_reject === 'first_error' ? 'break' : 'continue'),
      accept_score: grading.number('accept_score', SCORE),
      reject_score: grading.number('reject_score', SCORE),
    }),
    ...(range === null ? {} : { range }),
  };
}

type Keys = Pick<GroupSettings['group'], 'on_reject' | 'accept_score' | 'reject_score'>;

function present(keys: { [K in keyof Keys]: Keys[K] | null }): Partial<Keys> {
  return Object.fromEntries(Object.entries(keys).filter(([, value]) => value !== null));
}

function withoutUnscored({ unscored: _, ...group }: GroupSettings['group']) {
  return group;
}

type Grader = Pick<JudgedGroup, 'aggregation' | 'accepted_if'> & { ignore_sample: boolean };

/**
 * In a pass-fail problem nothing but the verdict counts, which is that of the first test that is not accepted. So the
 * flags that accept more than that are for scores.
 */
function readGrader(settings: Settings, { problem, top }: GroupPlace): Grader {
  const wrong = (why: string) => settings.problem('grader_flags', why);
  const read = graderFromFlags(wordsOf(settings.text('grader_flags') ?? ''));
  if (read.grader === undefined) throw wrong(read.problem);
  const { accepted_if, ignore_sample, aggregation } = read.grader;
  if (ignore_sample && top !== null) throw wrong('ignore_sample is for data/testdata.yaml only');
  if (problem.scoring) return read.grader;
  if (ignore_sample) throw wrong('ignore_sample is supported for problems of type scoring only');
  if (accepted_if !== 'all') {
    throw wrong('always_accept and accept_if_any_accepted are for problems of type scoring only');
  }
  return { aggregation, ignore_sample };
}

/** The legacy document calls a string the arguments in one place and the validator's name in another. */
function oldValidatorArgs(
  settings: Settings,
  { validator_name, problem }: GroupPlace,
): string[] | null {
  const key = 'output_validator_flags';
  if (!settings.has(key)) return validatorArgs(settings, problem.version);
  settings.reject('output_validator_args', `${key} is given, too`);
  if (!settings.isMap(key)) {
    const args = flagsOf(settings, key);
    if (validator_name !== null && args.join(' ') === validator_name) {
      throw settings.problem(
        key,
        `${validator_name} can be arguments or the validator's name; write a map of name and flags`,
      );
    }
    return args;
  }
  const named = settings.map(key);
  named.allow('name', 'flags');
  const name = named.text('name');
  if (name !== validator_name)
    throw named.problem('name', `there is no output validator ${name ?? ''}`);
  return flagsOf(named, 'flags');
}

function rangeOf(settings: Settings): [least: number | null, most: number | null] | null {
  const text = settings.text('range');
  if (text === null) return null;
  const [least, most, ...more] = wordsOf(text).map(toBound);
  if (least == null || most == null || more.length > 0 || least > most) {
    throw settings.problem('range', 'must be two numbers, the smaller one first');
  }
  return [least === -Infinity ? null : least, most === Infinity ? null : most];
}

function toBound(word: string): number | null {
  const infinite = /^([+-]?)inf$/.exec(word);
  if (infinite === null) return toNumber(word);
  return infinite[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}

const SCORING = ['max_score', 'score_aggregation', 'scoring', 'require_pass'];
const STATIC = ['static_validation', 'static_validation_score', 'static_validator_args'];
/** Keys that a group and a single test can have. */
const SHARED = [
  'args',
  'input_validator_args',
  'output_validator_args',
  'input_visualizer_args',
  'output_visualizer_args',
  'full_feedback',
  'hint',
  'description',
];
/** of the draft */
const OF_DRAFT = ['input_validator_flags', 'output_validator_flags'];

function readNew(settings: Settings, { problem, top, parent }: GroupPlace): GroupSettings {
  settings.allow(...SHARED, ...SCORING, ...STATIC, ...OF_DRAFT);
  for (const key of STATIC) {
    if (settings.isText(key) && settings.text(key) === 'false') continue;
    settings.reject(key, 'a static validator is not supported');
  }
  for (const key of SCORING) {
    if (!problem.scoring) settings.reject(key, 'is for problems of type scoring only');
    if (top !== 'secret') settings.reject(key, 'is for data/secret and its groups only');
  }
  const unscored = top === 'sample' && problem.scoring;
  return {
    ...DEFAULTS,
    group: {
      ...DEFAULTS.group,
      on_reject: problem.scoring ? 'continue' : 'break',
      ...(unscored ? { unscored } : {}),
    },
    program_args: settings.strings('args') ?? parent?.program_args ?? [],
    validator_args: newValidatorArgs(settings, problem.version) ?? parent?.validator_args ?? [],
    scoring: scoringOf(settings),
  };
}

/** The settings of one test of the newer versions; null where the group's hold. */
export function readTestSettings(
  settings: Settings,
  version: FormatVersion,
): {
  args: string[] | null;
  validator_args: string[] | null;
} {
  settings.allow(...SHARED);
  return { args: settings.strings('args'), validator_args: newValidatorArgs(settings, version) };
}

/** In the draft, the key was a string before it was a sequence. */
function validatorArgs(settings: Settings, version: FormatVersion): string[] | null {
  const key = 'output_validator_args';
  if (version === '2023-07' && settings.isText(key) && settings.text(key)) {
    return flagsOf(settings, key);
  }
  return settings.strings(key);
}

function newValidatorArgs(settings: Settings, version: FormatVersion): string[] | null {
  if (!settings.has('output_validator_flags')) return validatorArgs(settings, version);
  settings.reject('output_validator_args', 'output_validator_flags is given, too');
  return flagsOf(settings, 'output_validator_flags');
}

const MAX_SCORE = { min: 0, max: SCORE.max };

function scoringOf(settings: Settings): ScoreSettings {
  if (!settings.has('scoring')) {
    return {
      max: maxOf(settings, 'max_score'),
      aggregation: settings.oneOf('score_aggregation', ['pass-fail', 'sum', 'min']),
      require_pass: settings.words('require_pass') ?? [],
    };
  }
  // of the draft
  for (const key of ['max_score', 'score_aggregation', 'require_pass'])
    settings.reject(key, 'scoring is given, too');
  const scoring = settings.map('scoring');
  scoring.allow('score', 'aggregation', 'require_pass');
  return {
    max: maxOf(scoring, 'score'),
    aggregation: scoring.oneOf('aggregation', ['pass-fail', 'sum', 'min']),
    require_pass: scoring.words('require_pass') ?? [],
  };
}

function maxOf(settings: Settings, key: string): number | 'unbounded' | null {
  return settings.text(key) === 'unbounded' ? 'unbounded' : settings.integer(key, MAX_SCORE);
}
