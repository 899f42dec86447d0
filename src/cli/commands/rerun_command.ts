import type { Measured } from '../../domain/rerun_changes.ts';
import { VERDICT_NAMES } from '../../domain/verdicts.ts';
import { BY_NAME } from '../../languages/common/registry.ts';
import { operatorName } from '../../local/operator.ts';
import { findOriginals, hasAccount, hasTestSet, type RerunFilter } from '../../store/reruns.ts';
import { createSubmissions } from '../../store/submissions.ts';
import {
  type Command,
  CommandFailed,
  type Context,
  isUuid,
  JSON_OPTION,
  NO_RESULT,
  UsageError,
  wholeNumber,
} from '../command.ts';
import { OUTCOMES, outcomeOf, type Progress, type Rerun, rerunAll } from '../rerun_all.ts';
import { startSpinner } from '../spinner.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary:
    'run stored submissions again with the toolchains of today, while nothing else waits, and print what changed',
  options: {
    from: { value: 'TIME', help: 'only those accepted at this time or later, such as 2026-03-01' },
    to: { value: 'TIME', help: 'only those accepted before this time' },
    account: { value: 'NAME', help: 'only those of this account' },
    language: { value: 'NAME', help: 'only those in this language' },
    verdict: { value: 'VERDICT', help: 'only those with this verdict' },
    'test-set': { value: 'ID', help: 'only those that were judged by this test set' },
    'with-test-set': {
      value: 'ID',
      help: 'judge them by this test set, which replaces that of --test-set, and print whose verdict or score changed',
    },
    limit: { value: 'N', default: '100', help: 'how many, the newest first' },
    'at-once': { value: 'N', default: '1', help: 'how many run at the same time' },
    json: JSON_OPTION,
  },
  statuses: [
    ['0', 'nothing changed; what was left out is counted'],
    ['1', 'something changed'],
    ['2', 'a mistake in the command line or in the configuration'],
    [
      String(NO_RESULT),
      'nothing was compared: no submission fits, or each was left out; or the command could not go on',
    ],
  ],
  failed: NO_RESULT,
  example: 'rerun --language python --limit 20',
  async run(context) {
    const filter = filterOf(context);
    const by_set = idOf(context, 'with-test-set');
    if (by_set !== null && filter.test_set === null)
      throw new UsageError('--with-test-set needs --test-set, whose place it takes');
    const at_once = wholeNumber(context, 'at-once');
    const db = await context.database();
    const { queue_capacity } = context.config;
    const submissions = createSubmissions(db, { queue_capacity });
    if (filter.account !== null && !(await hasAccount(db, filter.account)))
      throw new CommandFailed(`there is no account ${filter.account}`);
    if (by_set !== null && !(await hasTestSet(db, by_set)))
      throw new CommandFailed(`there is no test set ${by_set}`);
    const found = await findOriginals(db, { ...filter, limit: filter.limit + 1 }, by_set);
    const originals = found.slice(0, filter.limit);
    // Without a test set, a limited number is what was asked for.
    if (found.length > originals.length && filter.test_set !== null)
      context.say(`more submissions fit: these are the newest ${filter.limit}, see --limit`);
    const { progress, stop } = progressOf(context, originals.length);
    const reruns = await rerunAll(originals, {
      db,
      submissions,
      operator: operatorName(),
      at_once,
      by_set,
      progress,
    }).finally(stop);
    if (context.json) context.answer(reruns.map(jsonOf));
    else print(context, reruns, by_set !== null);
    return statusOf(context, reruns);
  },
};

/** On a terminal all of it; elsewhere only what it waits for, once. */
function progressOf(context: Context, of: number): { progress: Progress; stop: () => void } {
  const spinner = startSpinner(`0 of ${of} submissions`);
  const said = new Set<string>();
  let done = 0;
  const progress: Progress = {
    done() {
      done += 1;
      progress.waits(null);
    },
    waits(what) {
      spinner.say(`${done} of ${of} submissions${what === null ? '' : `, ${what}`}`);
      if (what === null || process.stderr.isTTY || said.has(what)) return;
      said.add(what);
      context.say(what);
    },
  };
  return { progress, stop: () => spinner.stop() };
}

function statusOf(context: Context, reruns: readonly Rerun[]): number {
  const outcomes = reruns.map(outcomeOf);
  if (outcomes.includes('changed')) return 1;
  if (outcomes.some((outcome) => outcome !== 'left out')) return 0;
  const why = reruns.length === 0 ? 'no submission fits' : 'each submission was left out';
  context.say(`nothing was compared: ${why}`);
  return NO_RESULT;
}

function filterOf(context: Context): RerunFilter {
  const text = (name: string) => textOf(context, name);
  const [language, verdict] = [text('language'), text('verdict')];
  if (language !== null && !BY_NAME.has(language))
    throw new UsageError(`--language must be one of ${[...BY_NAME.keys()].join(', ')}`);
  if (verdict !== null && !(VERDICT_NAMES as readonly string[]).includes(verdict))
    throw new UsageError(`--verdict must be one of ${VERDICT_NAMES.join(', ')}`);
  return {
    from: timeOf(text('from'), 'from'),
    to: timeOf(text('to'), 'to'),
    account: text('account'),
    language,
    verdict,
    test_set: idOf(context, 'test-set'),
    limit: wholeNumber(context, 'limit'),
  };
}

function textOf({ options }: Context, name: string): string | null {
  const value = options[name];
  return typeof value === 'string' ? value : null;
}

function idOf(context: Context, name: string): string | null {
  const word = textOf(context, name);
  if (word !== null && !isUuid(word)) throw new UsageError(`--${name} must be an id of a test set`);
  return word?.toLowerCase() ?? null;
}

function timeOf(word: string | null, name: string): Date | null {
  if (word === null) return null;
  const time = new Date(word);
  if (!/^\d{4}-\d{2}-\d{2}/.test(word) || Number.isNaN(time.getTime()))
    throw new UsageError(`--${name} must be a time such as 2026-03-01 or 2026-03-01T12:00:00Z`);
  return time;
}

function print(context: Context, reruns: readonly Rerun[], is_of_another_set: boolean): void {
  const shown = reruns.filter(({ steady, unsteady }) => steady.length + unsteady.length > 0);
  const has_scores = shown.some(({ original, runs }) =>
    [original, ...runs].some(({ score }) => score !== null),
  );
  const lines = shown.map((rerun) => lineOf(rerun, has_scores, is_of_another_set));
  if (lines.length > 0) context.answer(table(lines));
  const of = Map.groupBy(reruns, outcomeOf);
  const counts = OUTCOMES.map((outcome) => `${of.get(outcome)?.length ?? 0} ${outcome}`);
  context.answer(`${reruns.length} submissions: ${counts.join(', ')}`);
  const reasons = Map.groupBy(of.get('left out') ?? [], ({ skipped }) => skipped);
  for (const [reason, all] of reasons) context.answer(`${all.length} left out: ${reason}`);
}

function lineOf(
  { original, runs, steady, unsteady }: Rerun,
  has_scores: boolean,
  is_of_another_set: boolean,
): Record<string, unknown> {
  const last = runs.at(-1)!;
  const pair = (of: (each: Measured) => unknown) =>
    of(original) === of(last) ? of(last) : `${of(original) ?? '-'} -> ${of(last) ?? '-'}`;
  const line = {
    submission: original.id,
    account: original.account,
    language: original.language,
    changed: steady.join(', ') || `(differs: ${unsteady.join(', ')})`,
    verdict: pair(({ verdict }) => verdict),
    ...(has_scores && { score: pair(({ score }) => score) }),
  };
  if (is_of_another_set) return line;
  return {
    ...line,
    cpu_ms: pair(({ cpu_time_us }) => cpu_time_us && Math.round(cpu_time_us / 1000)),
    memory_mib: pair(
      ({ memory_peak_bytes }) => memory_peak_bytes && Math.round(memory_peak_bytes / 2 ** 20),
    ),
  };
}

const jsonOf = ({ original, ids, runs, steady, unsteady, skipped }: Rerun) => ({
  submission: original.id,
  account: original.account,
  language: original.language,
  test_set: original.test_set,
  not_run: skipped,
  changed: steady,
  differs: unsteady,
  before: measuredOf(original),
  reruns: runs.map((run, n) => ({ id: ids[n], ...run })),
});

const measuredOf = ({
  verdict,
  score,
  exit_code,
  stdout_sha256,
  tests,
  cpu_time_us,
  memory_peak_bytes,
}: Measured) => ({
  verdict,
  score,
  exit_code,
  stdout_sha256,
  tests,
  cpu_time_us,
  memory_peak_bytes,
});
