/**
 * Reads the settings of a group of tests: testdata.yaml of the legacy version, test_group.yaml of the newer ones. For a
 * year the draft of 2023-07 had testdata.yaml, too, and there are packages of it: they have the keys of both.
 *
 * In the newer versions, arguments are inherited key by key and scores are not. The legacy document says only that a
 * group without a file uses that of its parent; the tools that check packages inherit each key that a file leaves out,
 * and packages rely on it, so this does the same. A flag of the root alone is not inherited.
 */
import type { Group } from '../test_set.ts';
import { flagsOf, type ProblemSettings } from './problem_settings.ts';
import { type Settings, toNumber, wordsOf } from './settings.ts';

export type GroupSettings = Pick<
  Group,
  'on_reject' | 'aggregation' | 'accept_score' | 'reject_score'
> & {
  validator_args: string[];
  program_args: string[];
  /** Its tests count for no score. */
  unscored: boolean;
  /** of the legacy version: the smallest and the largest score that the group can have */
  range: { min: number; max: number } | null;
  /** of the newer versions */
  scoring: ScoreSettings;
};

export type ScoreSettings = {
  max: number | 'unbounded' | null;
  aggregation: 'pass-fail' | 'sum' | 'min' | null;
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
  on_reject: 'break',
  aggregation: 'sum',
  accept_score: 1,
  reject_score: 0,
  validator_args: [],
  program_args: [],
  unscored: false,
  range: null,
  scoring: { max: null, aggregation: null },
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
  const flags = wordsOf(settings.text('grader_flags') ?? '');
  checkGraderFlags(flags, settings, place);
  // Of several modes, the last one counts.
  const mode = flags.findLast((flag) => flag === 'sum' || flag === 'min');
  const read: GroupSettings = {
    ...DEFAULTS,
    on_reject: settings.oneOf('on_reject', ['break', 'continue']) ?? inherited.on_reject,
    aggregation: settings.has('grader_flags') ? (mode ?? 'sum') : inherited.aggregation,
    accept_score: settings.number('accept_score', SCORE) ?? inherited.accept_score,
    reject_score: settings.number('reject_score', SCORE) ?? inherited.reject_score,
    range: rangeOf(settings) ?? inherited.range,
    validator_args: oldValidatorArgs(settings, place) ?? inherited.validator_args,
    program_args: settings.strings('args') ?? inherited.program_args,
  };
  if (top === null && flags.includes('ignore_sample'))
    return { ...read, aggregation: 'sum', unscored: true };
  const unscored = inherited.unscored || (is_draft && problem.scoring);
  return top === 'sample' && unscored ? withoutScore(read) : read;
}

/** The root that ignores the samples hands it down to them through `unscored`. */
function withoutScore(settings: GroupSettings): GroupSettings {
  return { ...settings, aggregation: 'sum', accept_score: 0, reject_score: 0, unscored: true };
}

const VERDICT_MODES = ['worst_error', 'first_error'];
/** A record's verdict is that of its first test that is not accepted, so these change no score and no verdict of ours. */
const LENIENT_MODES = ['always_accept', 'accept_if_any_accepted'];
const SCORE_MODES = ['sum', 'min'];

function checkGraderFlags(flags: string[], settings: Settings, { problem, top }: GroupPlace): void {
  const wrong = (problem: string) => settings.problem('grader_flags', problem);
  for (const flag of flags) {
    if (VERDICT_MODES.includes(flag) || SCORE_MODES.includes(flag)) continue;
    if (LENIENT_MODES.includes(flag) && problem.scoring) continue;
    if (flag !== 'ignore_sample') throw wrong(`${flag} is not supported`);
    if (top !== null) throw wrong('ignore_sample is for data/testdata.yaml only');
    if (!problem.scoring)
      throw wrong('ignore_sample is supported for problems of type scoring only');
  }
}

/** The legacy document calls a string the arguments in one place and the validator's name in another. */
function oldValidatorArgs(settings: Settings, { validator_name }: GroupPlace): string[] | null {
  const key = 'output_validator_flags';
  if (!settings.has(key)) return settings.strings('output_validator_args');
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

function rangeOf(settings: Settings): { min: number; max: number } | null {
  const text = settings.text('range');
  if (text === null) return null;
  const [min, max, ...more] = wordsOf(text).map(toBound);
  if (
    min === undefined ||
    max === undefined ||
    min === null ||
    max === null ||
    more.length > 0 ||
    min > max
  ) {
    throw settings.problem('range', 'must be two numbers, the smaller one first');
  }
  return { min, max };
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
  const read: GroupSettings = {
    ...DEFAULTS,
    on_reject: problem.scoring ? 'continue' : 'break',
    program_args: settings.strings('args') ?? parent?.program_args ?? [],
    validator_args: newValidatorArgs(settings) ?? parent?.validator_args ?? [],
    scoring: scoringOf(settings),
  };
  return top === 'sample' && problem.scoring ? withoutScore(read) : read;
}

/** The settings of one test of the newer versions; null where the group's hold. */
export function readTestSettings(settings: Settings): {
  args: string[] | null;
  validator_args: string[] | null;
} {
  settings.allow(...SHARED);
  return { args: settings.strings('args'), validator_args: newValidatorArgs(settings) };
}

function newValidatorArgs(settings: Settings): string[] | null {
  if (!settings.has('output_validator_flags')) return settings.strings('output_validator_args');
  settings.reject('output_validator_args', 'output_validator_flags is given, too');
  return flagsOf(settings, 'output_validator_flags');
}

const MAX_SCORE = { min: 0, max: SCORE.max };

function scoringOf(settings: Settings): ScoreSettings {
  if (!settings.has('scoring')) {
    rejectDependencies(settings);
    return {
      max: maxOf(settings, 'max_score'),
      aggregation: settings.oneOf('score_aggregation', ['pass-fail', 'sum', 'min']),
    };
  }
  // of the draft
  for (const key of ['max_score', 'score_aggregation', 'require_pass'])
    settings.reject(key, 'scoring is given, too');
  const scoring = settings.map('scoring');
  scoring.allow('score', 'aggregation', 'require_pass');
  rejectDependencies(scoring);
  return {
    max: maxOf(scoring, 'score'),
    aggregation: scoring.oneOf('aggregation', ['pass-fail', 'sum', 'min']),
  };
}

function maxOf(settings: Settings, key: string): number | 'unbounded' | null {
  return settings.text(key) === 'unbounded' ? 'unbounded' : settings.integer(key, MAX_SCORE);
}

function rejectDependencies(settings: Settings): void {
  if ((settings.words('require_pass') ?? []).length > 0) {
    throw settings.problem('require_pass', 'groups that depend on others are not supported');
  }
}
