/** The results that an example submission of a package must get. */
import type { TestSet } from '../test_set.ts';
import type { FormatVersion } from './format_version.ts';
import { compilePattern } from './path_patterns.ts';
import { type Settings, toNumber, wordsOf } from './settings.ts';

/** The format's verdicts of a test; `RTE` is every crash. */
export const TEST_RESULTS = ['AC', 'WA', 'TLE', 'RTE'] as const;
export type TestResult = (typeof TEST_RESULTS)[number];

/** One requirement. All requirements of a submission must hold. */
export type Requirement = {
  /** names of the tests that it is about */
  tests: string[];
  /** Each of the tests has one of these results. */
  permitted: TestResult[];
  /** At least one of the tests has one of these results. */
  required: TestResult[];
  /** the score of a group, or of the whole set where `group` is null */
  score: { group: string | null; min: number; max: number } | null;
  /** It is part of a judge message of one of the tests. */
  message: string;
  /**
   * What the submission says of the time limit where the package sets none. `lower`: the limit is above its times, and no TLE
   * is permitted. `upper`: the limit is below its longest time, and a TLE is required.
   */
  time_limit: 'lower' | 'upper' | null;
};

const ALL: TestResult[] = [...TEST_RESULTS];

type Rule = Pick<Requirement, 'permitted' | 'required' | 'time_limit'>;
type Rules = Readonly<Record<string, Partial<Rule>>>;

const LEGACY_FOLDERS: Rules = {
  accepted: { permitted: ['AC'] },
  // Its verdict is that it is accepted; that its score is not the best is for the whole set.
  partially_accepted: {},
  // Only accepted submissions bound the limit from below, which the newer versions changed.
  wrong_answer: { permitted: ['AC', 'WA'], required: ['WA'], time_limit: null },
  time_limit_exceeded: { permitted: ['AC', 'WA', 'TLE'], required: ['TLE'] },
  run_time_error: { required: ['RTE'] },
};

const NEW_FOLDERS: Rules = {
  accepted: { permitted: ['AC'] },
  rejected: { required: ['RTE', 'TLE', 'WA'] },
  wrong_answer: { permitted: ['AC', 'WA'], required: ['WA'] },
  time_limit_exceeded: { permitted: ['AC', 'TLE'], required: ['TLE'] },
  run_time_error: { permitted: ['AC', 'RTE'], required: ['RTE'] },
  brute_force: { permitted: ['AC', 'RTE', 'TLE'], required: ['RTE', 'TLE'] },
};

/** Finds the requirements of submissions by their paths below `submissions`. */
export class ExpectedResults {
  readonly #set: TestSet;
  readonly #folders: Rules;
  readonly #file: Settings;
  /** the keys of submissions.yaml that are patterns and not one of the folders above */
  readonly #patterns: { key: string; matches: (path: string) => boolean }[];

  constructor(set: TestSet, version: FormatVersion, file: Settings) {
    this.#set = set;
    this.#folders = version === 'legacy' ? LEGACY_FOLDERS : NEW_FOLDERS;
    this.#file = file;
    this.#patterns = file.keys().map((key) => ({ key, matches: patternOf(file, key) }));
  }

  /** Empty where neither the folder nor submissions.yaml says anything of it. */
  of(path: string): Requirement[] {
    const folder = path.split('/')[0] ?? '';
    const rule = Object.hasOwn(this.#folders, folder) ? this.#folders[folder] : undefined;
    const own = this.#patterns.filter(({ matches }) => matches(path)).map(({ key }) => key);
    const found = own.flatMap((key) => this.#ofKey(key, key === folder ? (rule ?? {}) : {}));
    return rule === undefined || own.includes(folder) ? found : [this.#requirement(rule), ...found];
  }

  /** Of a submission whose source says what it scores. */
  ofScore(score: number): Requirement[] {
    return [
      {
        ...this.#requirement({}),
        score: { group: null, min: score, max: score },
        time_limit: null,
      },
    ];
  }

  hintsOf(path: string): { language: string | null; main: string | null } {
    const own = this.#patterns
      .filter(({ matches }) => matches(path))
      .map(({ key }) => this.#file.map(key));
    const last = (key: string) => own.findLast((settings) => settings.has(key))?.text(key) ?? null;
    return { language: last('language'), main: last('entrypoint') };
  }

  #ofKey(key: string, folder_rule: Partial<Rule>): Requirement[] {
    const settings = this.#file.map(key);
    const whole = this.#requirement(
      folder_rule,
      settings,
      this.#set.tests.map(({ name }) => name),
    );
    const has_samples = this.#set.tests.some(({ name }) => name.startsWith(`${SAMPLE}/`));
    const parts = settings
      .keys()
      .filter((name) => !OWN_KEYS.includes(name) && (has_samples || name !== SAMPLE));
    return [whole, ...parts.map((part) => this.#ofPart(settings, part))];
  }

  /** `part` is a pattern of groups and tests. */
  #ofPart(settings: Settings, part: string): Requirement {
    const matches = patternOf(settings, part);
    const tests = this.#set.tests.filter(({ name }) => matches(name)).map(({ name }) => name);
    if (tests.length === 0) throw settings.problem(part, 'no test or group has this name');
    const inner = settings.map(part);
    inner.allow(...RULE_KEYS);
    const is_group = this.#set.groups.some(({ name }) => name === part);
    if (inner.has('score') && !is_group) throw inner.problem('score', 'is for a group only');
    return this.#requirement({}, inner, tests, part);
  }

  #requirement(
    rule: Partial<Rule>,
    settings?: Settings,
    tests = this.#set.tests.map(({ name }) => name),
    group: string | null = null,
  ): Requirement {
    const use = settings?.oneOf('use_for_time_limit', ['true', 'false', 'lower', 'upper']) ?? null;
    const permitted = (resultsOf(settings, 'permitted') ?? rule.permitted ?? ALL).filter(
      (result) => use !== 'lower' || result !== 'TLE',
    );
    const required = (resultsOf(settings, 'required') ?? rule.required ?? ALL).filter(
      (result) => use !== 'upper' || result === 'TLE',
    );
    const wrong = (problem: string) => settings!.problem('use_for_time_limit', problem);
    if (use === 'lower' && permitted.length === 0)
      throw wrong('lower needs a permitted result other than TLE');
    if (use === 'upper' && required.length === 0)
      throw wrong('upper requires TLE, and required does not have it');
    const score = settings === undefined ? null : scoreOf(settings, group);
    const message = settings?.text('message') ?? '';
    return {
      tests,
      permitted,
      required,
      score,
      message,
      time_limit: timeLimitOf(use, permitted, required, rule.time_limit),
    };
  }
}

/** A package without samples may still say what they need. */
const SAMPLE = 'sample';
const RULE_KEYS = ['permitted', 'required', 'score', 'message', 'use_for_time_limit'];
const OWN_KEYS = [...RULE_KEYS, 'language', 'entrypoint', 'authors', 'model_solution'];

function patternOf(settings: Settings, key: string): (path: string) => boolean {
  const matches = compilePattern(key);
  if (matches === null)
    throw settings.problem(key, 'its braces are not balanced, or stand for too many names');
  return matches;
}

function resultsOf(settings: Settings | undefined, key: string): TestResult[] | null {
  const words = settings?.words(key) ?? null;
  if (settings === undefined || words === null) return null;
  return words.map((word) => {
    const result = TEST_RESULTS.find((known) => known === word);
    if (result === undefined)
      throw settings.problem(key, `must be some of ${TEST_RESULTS.join(', ')}`);
    return result;
  });
}

function scoreOf(settings: Settings, group: string | null): Requirement['score'] {
  const words = settings.isText('score')
    ? wordsOf(settings.text('score') ?? '')
    : settings.strings('score');
  if (words === null) return null;
  const [min, max = min, ...more] = words.map(toNumber);
  if (min == null || max == null || more.length > 0 || min > max) {
    throw settings.problem('score', 'must be a number, or two numbers, the smaller one first');
  }
  return { group, min, max };
}

function timeLimitOf(
  use: 'true' | 'false' | 'lower' | 'upper' | null,
  permitted: TestResult[],
  required: TestResult[],
  usual: Requirement['time_limit'] | undefined,
): Requirement['time_limit'] {
  if (use === 'lower' || use === 'upper') return use;
  if (use === 'false') return null;
  if (use === null && usual !== undefined) return usual;
  if (required.length === 1 && required[0] === 'TLE') return 'upper';
  return permitted.includes('TLE') ? null : 'lower';
}
