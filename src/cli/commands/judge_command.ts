/** `./runledger judge`: judges a program on the tests of a problem package. */
import type { ResultRecord } from '../../client/client.ts';
import { EXCEEDABLE_WORDS } from '../../domain/limits.ts';
import { readPackage } from '../../judging/packages/read_package.ts';
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import {
  type Command,
  type Context,
  INTERRUPTED_STATUS,
  JSON_OPTION,
  NO_RESULT,
  optionText,
} from '../command.ts';
import { followUntilInterrupted } from '../follow_submission.ts';
import { JUDGING_OPTIONS, judgingOptions } from '../judging_options.ts';
import { LANGUAGE_OPTION, languageOf, requestOfPath } from '../program_request.ts';
import { sayAsking, sayRetries, startSpinner } from '../spinner.ts';
import { failedCall, packageBounds, readingPackage, storedSet } from '../stored_set.ts';
import { columns } from '../table.ts';

export const command: Command = {
  summary: 'judge a program on the tests of a problem package',
  words: [{ name: 'FILE', help: 'the source file, or a folder of source files; - is stdin' }],
  options: {
    package: {
      value: 'PATH',
      required: true,
      help: 'the problem package, a folder or a zip archive; stored as a test set if it is not yet',
    },
    language: LANGUAGE_OPTION,
    all: { help: 'run every test, not only those up to the first that is not accepted' },
    ...JUDGING_OPTIONS,
    server: SERVER_OPTION,
    json: JSON_OPTION,
  },
  statuses: [
    ['0', 'accepted: AC'],
    ['1', 'judged, and not accepted: every other verdict but IE'],
    ['2', 'a mistake in the command line or in the configuration'],
    [
      String(NO_RESULT),
      'no verdict about the program: IE, cancelled, a file that cannot be read, or no good answer of the service',
    ],
    INTERRUPTED_STATUS,
  ],
  failed: NO_RESULT,
  example: 'judge sum.py --package problems/sum',
  async run(context) {
    const { all } = context.options;
    const { time_limit, named } = judgingOptions(context);
    const language = languageOf(context);
    const client = clientOf(context);
    const bounds = packageBounds(context);
    const file = context.words[0]!;
    const program = await readingPackage(file, requestOfPath(file, language, bounds));
    const path = optionText(context, 'package');
    const { set, notes } = await readingPackage(
      path,
      readPackage(path, bounds, async () => {}),
    );
    for (const note of notes) context.say(note);
    const spinner = startSpinner('storing the tests');
    try {
      const test_set = await storedSet(client, path, set, bounds);
      const request = {
        ...program,
        ...named,
        test_set,
        stop: all === true ? ('never' as const) : ('first' as const),
        ...(time_limit !== null && { limits: { cpu_time: time_limit } }),
      };
      spinner.say('judging');
      const onProgress = process.stderr.isTTY
        ? (done: number, of: number) => spinner.say(`${done} of ${of} tests`)
        : null;
      const record = await followUntilInterrupted(client, request, onProgress, {
        onSending: sayRetries(spinner, 'judging', context.say),
        onAsking: sayAsking(spinner, context.say),
      });
      spinner.stop();
      return report(context, record);
    } catch (error) {
      spinner.stop();
      throw failedCall(error);
    }
  },
};

function report(context: Context, record: ResultRecord): number {
  if (context.json) context.answer(record);
  else {
    if (record.verdict === 'CE') context.answer((record.stderr ?? '').trimEnd());
    else if (record.tests !== null) context.answer(columns(record.tests.map(testLine)));
    context.answer(summaryOf(record));
  }
  const status = statusOf(record);
  if (status === NO_RESULT) context.say(`no verdict: ${reasonOf(record)}`);
  return status;
}

/** Of a record without a verdict about the program. */
function reasonOf({ id, verdict, tests }: ResultRecord): string {
  if (verdict === null) return `submission ${id} was cancelled`;
  const failed = tests?.find((test) => test.verdict === 'IE');
  if (failed?.message) return `test ${failed.name ?? failed.n}: ${shown(failed.message)}`;
  return `the service could not judge submission ${id}, and its log has the reason: ask its operator`;
}

/** An IE and a submission that was cancelled say nothing about the program. */
function statusOf({ verdict }: ResultRecord): number {
  if (verdict === null || verdict === 'IE') return NO_RESULT;
  return verdict === 'AC' ? 0 : 1;
}

type Test = NonNullable<ResultRecord['tests']>[number];

function testLine(test: Test): string[] {
  const { n, name, verdict, memory_peak, message } = test;
  const time = test.limit_exceeded === 'wall_time' ? test.wall_time : test.cpu_time;
  return [
    name ?? String(n),
    verdict ?? 'not run',
    time === null ? '' : `${time.toFixed(3)} s`,
    memory_peak === null ? '' : `${(memory_peak / 2 ** 20).toFixed(1)} MiB`,
    [endText(test), shown(message ?? '')].filter(Boolean).join(': '),
  ];
}

/** What of the program's own end explains the verdict. */
function endText({ verdict, exit_code, signal, limit_exceeded }: Test): string {
  const end = verdict === 'SIG' ? signal : verdict === 'RE' ? `exit ${exit_code}` : null;
  const limit = limit_exceeded && `at its limit of ${EXCEEDABLE_WORDS[limit_exceeded]}`;
  return [end, limit].filter(Boolean).join(', ');
}

function summaryOf({ id, verdict, status, score, tests }: ResultRecord): string {
  const accepted = tests?.filter((test) => test.verdict === 'AC').length;
  const parts = [
    verdict ?? status,
    ...(tests === null ? [] : [`${accepted} of ${tests.length} tests accepted`]),
    ...(score === null ? [] : [`score ${score}`]),
    id,
  ];
  return parts.join('  ');
}

/** The first line. What a checker says may come from the program, so nothing in it steers the terminal. */
const shown = (message: string) => (message.split('\n')[0] ?? '').replace(/\p{C}/gu, '\ufffd');
