/** Reads problem.yaml: what kind of problem it is, and its limits. Everything for people alone is left unread. */
import type { LimitOverrides } from '../../domain/limits.ts';
import { type Constants, NO_CONSTANTS } from './constants.ts';
import { FORMAT_VERSIONS, type FormatVersion, VERSION_NAMES } from './format_version.ts';
import { type Settings, wordsOf } from './settings.ts';
import { shellWords } from './shell_words.ts';

export type ProblemSettings = {
  version: FormatVersion;
  name: string | null;
  scoring: boolean;
  /** whether it says that it has a program that judges; null where the presence of the folder says it */
  custom: boolean | null;
  interactive: boolean;
  passes: number;
  validator_flags: string[];
  limits: LimitOverrides;
  validator_limits: LimitOverrides;
  timing: Timing;
  /** Of the legacy version: settings of the root of the groups, where its own file does not have them. */
  grading: Settings;
  constants: Constants;
  /** whether the smallest or the largest score is the best */
  objective: 'min' | 'max';
};

/** How a time limit follows from the times of the example submissions, where the package sets none. */
export type Timing = {
  /** the limit is at least this many times the slowest submission that must be in time */
  ac_to_time_limit: number;
  /** the fastest submission that must not be in time takes at least this many times the limit */
  time_limit_to_tle: number;
  /** the limit is a multiple of it, in seconds */
  resolution: number;
};

export function readProblemSettings(settings: Settings): ProblemSettings {
  const word = settings.oneOf('problem_format_version', VERSION_NAMES);
  const version = FORMAT_VERSIONS[word ?? 'legacy'];
  const read = version === 'legacy' ? readLegacy : readNew;
  return { version, ...read(settings, version) };
}

type Rest = Omit<ProblemSettings, 'version'>;

const FOR_PEOPLE = [
  'problem_format_version',
  'uuid',
  'name',
  'source',
  'source_url',
  'license',
  'rights_owner',
  'keywords',
  // of a common tool
  ...['verified', 'comment'],
];
/** Of a common tool: limits of programs that nothing here runs. */
const LIMITS_OF_TOOLS = ['generator_time', 'visualizer_time'];

function readLegacy(settings: Settings): Rest {
  settings.allow(
    ...FOR_PEOPLE,
    'type',
    'author',
    'limits',
    'validation',
    'validator_flags',
    'grading',
    'languages',
    'libraries',
  );
  rejectLanguages(settings);
  const type = settings.oneOf('type', ['pass-fail', 'scoring']) ?? 'pass-fail';
  const validation = readValidation(settings);
  if (validation.score && type !== 'scoring') {
    throw settings.problem('validation', 'score is for problems of type scoring only');
  }
  const grading = settings.map('grading');
  grading.allow('objective', 'show_test_data_groups', ...GROUP_KEYS);
  const for_scores = grading.keys().some((key) => key !== 'on_reject');
  if (type !== 'scoring' && for_scores) {
    throw settings.problem('grading', 'is for problems of type scoring only');
  }
  const limits = settings.map('limits');
  limits.allow(
    ...['time_multiplier', 'time_safety_margin', 'validation_passes'],
    // Not in the document, and common.
    'time_limit',
    ...SHARED_LIMITS,
  );
  const { score: _, multi_pass, ...rest } = validation;
  return {
    ...rest,
    name: nameOf(settings),
    scoring: type === 'scoring',
    passes: passesOf(limits, multi_pass),
    validator_flags: flagsOf(settings, 'validator_flags'),
    limits: { ...programLimits(limits), ...timeLimit(limits) },
    validator_limits: validatorLimits(limits),
    timing: {
      ac_to_time_limit: limits.number('time_multiplier', LEGACY_FACTOR) ?? 5,
      time_limit_to_tle: limits.number('time_safety_margin', LEGACY_FACTOR) ?? 2,
      resolution: 1,
    },
    grading,
    constants: NO_CONSTANTS,
    objective: grading.oneOf('objective', ['min', 'max']) ?? 'max',
  };
}

/** Keys of `grading` in older documents: they are the defaults of data/testdata.yaml. */
const GROUP_KEYS = ['on_reject', 'accept_score', 'reject_score', 'range'];

function readNew(settings: Settings, version: FormatVersion): Rest {
  const is_draft = version === '2023-07';
  settings.allow(
    ...FOR_PEOPLE,
    ...[
      'type',
      'version',
      'credits',
      'embargo_until',
      'limits',
      'languages',
      'allow_file_writing',
      'constants',
    ],
    // of the draft
    ...['author', 'validation', ...(is_draft ? ['validator_flags'] : [])],
  );
  rejectLanguages(settings);
  const types = typesOf(settings);
  const has = (type: (typeof TYPES)[number]) => types.includes(type);
  if (has('submit-answer')) throw settings.problem('type', 'submit-answer is not supported');
  const validation = readValidation(settings);
  const custom = settings.has('validation') ? validation.custom : null;
  const limits = settings.map('limits');
  limits.allow(
    'time_limit',
    'time_resolution',
    'time_multipliers',
    'validation_passes',
    // of the draft
    ...(is_draft ? ['time_multiplier', 'time_safety_margin'] : []),
    ...SHARED_LIMITS,
  );
  const multipliers = limits.map('time_multipliers');
  multipliers.allow('ac_to_time_limit', 'time_limit_to_tle');
  return {
    name: nameOf(settings),
    scoring: has('scoring'),
    custom,
    interactive: has('interactive') || validation.interactive,
    passes: passesOf(limits, has('multi-pass') || validation.multi_pass),
    validator_flags: flagsOf(settings, 'validator_flags'),
    limits: { ...programLimits(limits), ...timeLimit(limits) },
    validator_limits: validatorLimits(limits),
    timing: {
      ac_to_time_limit:
        multipliers.number('ac_to_time_limit', FACTOR) ??
        limits.number('time_multiplier', LEGACY_FACTOR) ??
        2,
      time_limit_to_tle:
        multipliers.number('time_limit_to_tle', FACTOR) ??
        limits.number('time_safety_margin', LEGACY_FACTOR) ??
        1.5,
      resolution: limits.number('time_resolution', SECONDS) ?? 1,
    },
    grading: settings.map('grading'),
    constants: constantsOf(settings.map('constants')),
    objective: 'max',
  };
}

const TYPES = ['pass-fail', 'scoring', 'multi-pass', 'interactive', 'submit-answer'] as const;

/** The draft had the types in one string, too. */
function typesOf(settings: Settings): (typeof TYPES)[number][] {
  const words = settings.words('type') ?? ['pass-fail'];
  const types = words.map((word) => TYPES.find((type) => type === word));
  if (types.length === 0 || !types.every((type) => type !== undefined)) {
    throw settings.problem('type', `must be one or more of ${TYPES.join(', ')}`);
  }
  if (new Set(types).size < types.length) throw settings.problem('type', 'names a type twice');
  if (types.includes('pass-fail') && types.includes('scoring')) {
    throw settings.problem('type', 'pass-fail and scoring exclude each other');
  }
  return types;
}

const VALIDATION = ['score', 'interactive', 'multi-pass'];

function readValidation(settings: Settings) {
  const [kind, ...words] = wordsOf(settings.text('validation') || 'default');
  const known =
    words.every((word) => VALIDATION.includes(word)) && new Set(words).size === words.length;
  if (!known || !(kind === 'custom' || (kind === 'default' && words.length === 0))) {
    throw settings.problem(
      'validation',
      `must be default, or custom with any of ${VALIDATION.join(', ')}`,
    );
  }
  return {
    custom: kind === 'custom',
    score: words.includes('score'),
    interactive: words.includes('interactive'),
    multi_pass: words.includes('multi-pass'),
  };
}

/** A string, or a map from languages to strings. */
function nameOf(settings: Settings): string | null {
  if (settings.isText('name') || !settings.has('name')) return settings.text('name') || null;
  const names = settings.map('name');
  const language = names.has('en') ? 'en' : names.keys()[0];
  return language === undefined ? null : names.text(language);
}

function constantsOf(settings: Settings): Constants {
  const constants = new Map<string, string>();
  for (const name of settings.keys()) {
    if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name)) {
      throw settings.problem(
        name,
        'a name has only letters, digits and underscore, no digit first',
      );
    }
    constants.set(name, settings.text(name) ?? '');
  }
  return constants;
}

function rejectLanguages(settings: Settings): void {
  const languages = settings.words('languages') ?? [];
  if (languages.some((language) => language !== 'all'))
    throw settings.problem(
      'languages',
      'only all is supported; check the language of a submission before you send it',
    );
}

const SHARED_LIMITS = [
  'memory',
  'output',
  'code',
  'compilation_time',
  'compilation_memory',
  'validation_time',
  'validation_memory',
  'validation_output',
  ...LIMITS_OF_TOOLS,
];

const MiB = 1024 * 1024;
const FACTOR = { min: 1, max: 1_000 };
const LEGACY_FACTOR = { min: 0.001, max: FACTOR.max };
const SECONDS = { min: 0.001, max: 3_600 };
const WHOLE_SECONDS = { min: 1, max: SECONDS.max };
const MEBIBYTES = { min: 1, max: 1024 * 1024 };
const PASSES = { min: 2, max: 1_000 };

function programLimits(limits: Settings): LimitOverrides {
  return {
    ...bytes('memory_bytes', limits.integer('memory', MEBIBYTES)),
    ...bytes('output_bytes', limits.integer('output', MEBIBYTES)),
  };
}

function validatorLimits(limits: Settings): LimitOverrides {
  const seconds = limits.integer('validation_time', WHOLE_SECONDS);
  return {
    ...(seconds === null ? {} : { cpu_time_ms: seconds * 1000 }),
    ...bytes('memory_bytes', limits.integer('validation_memory', MEBIBYTES)),
    ...bytes('output_bytes', limits.integer('validation_output', MEBIBYTES)),
  };
}

function bytes<K extends string>(name: K, mebibytes: number | null): Partial<Record<K, number>> {
  return mebibytes === null ? {} : ({ [name]: mebibytes * MiB } as Record<K, number>);
}

function timeLimit(limits: Settings): LimitOverrides {
  const seconds = limits.number('time_limit', SECONDS);
  return seconds === null ? {} : { cpu_time_ms: Math.ceil(seconds * 1000) };
}

const DEFAULT_PASSES = 2;

function passesOf(limits: Settings, multi_pass: boolean): number {
  if (!multi_pass) limits.reject('validation_passes', 'is for multi-pass problems only');
  return multi_pass ? (limits.integer('validation_passes', PASSES) ?? DEFAULT_PASSES) : 1;
}

/** Arguments in one string. */
export function flagsOf(settings: Settings, key: string): string[] {
  const split = shellWords(settings.text(key) ?? '');
  if (split.problem !== undefined) throw settings.problem(key, split.problem);
  return split.words;
}
