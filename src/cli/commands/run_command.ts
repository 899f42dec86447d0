/** `./runledger run`: submits a file, waits, and exits with the program's status. */
import { ApiError, type Client, type SubmissionRequest } from '../../client/client.ts';
import type { ResultRecord } from '../../domain/record.ts';
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import {
  type Command,
  CommandFailed,
  type Context,
  INTERRUPTED_STATUS,
  JSON_OPTION,
  NO_RESULT,
} from '../command.ts';
import { callText, followUntilInterrupted, ResultNotRead } from '../follow_submission.ts';
import { LANGUAGE_OPTION, languageOf, readInput, requestOfFile } from '../program_request.ts';
import { sayAsking, sayRetries, startSpinner } from '../spinner.ts';

/** The status of a compiler that rejects its source. */
const NOT_COMPILED = 1;

export const command: Command = {
  summary: 'submit a file, wait, print its output, and exit with its exit status',
  words: [{ name: 'FILE', help: 'the source file; - is stdin' }],
  options: {
    stdin: { value: 'FILE', help: 'the input of the program; - is stdin' },
    language: LANGUAGE_OPTION,
    server: SERVER_OPTION,
    json: JSON_OPTION,
  },
  statuses: [
    ['N', 'the program ended with N, or with 128 + N after signal N'],
    ['1', 'it was not compiled'],
    ['2', 'a mistake in the command line or in the configuration'],
    [String(NO_RESULT), 'it was not run, or there is no result: stderr says which, and why'],
    INTERRUPTED_STATUS,
  ],
  failed: NO_RESULT,
  example: 'run hello.py',
  async run(context) {
    const request = await readRequest(context);
    const client = clientOf(context);
    const spinner = startSpinner('running');
    try {
      const following = followUntilInterrupted(client, request, null, {
        onSending: sayRetries(spinner, 'running', context.say),
        onAsking: sayAsking(spinner, context.say),
      });
      const record = await following.finally(() => spinner.stop());
      return context.json ? reportJson(context, record) : report(context, client, record);
    } catch (error) {
      return explain(context, error);
    }
  },
};

async function readRequest(context: Context): Promise<SubmissionRequest> {
  const { stdin } = context.options;
  return {
    ...(await requestOfFile(context.words[0]!, languageOf(context))),
    ...(typeof stdin === 'string' && {
      stdin_base64: (await readInput(stdin)).toString('base64'),
    }),
  };
}

type Outputs = { stdout: Buffer; stderr: Buffer };

const outputsOf = ({ stdout, stderr }: ResultRecord, encoding: 'utf8' | 'base64'): Outputs => ({
  stdout: Buffer.from(stdout ?? '', encoding),
  stderr: Buffer.from(stderr ?? '', encoding),
});

/** U+FFFD may stand for bytes that are not UTF-8: then ask for the exact bytes. */
async function exactOutputs(
  context: Context,
  client: Client,
  record: ResultRecord,
): Promise<Outputs> {
  const as_text = outputsOf(record, 'utf8');
  if (!`${record.stdout ?? ''}${record.stderr ?? ''}`.includes('\ufffd')) return as_text;
  try {
    return outputsOf(await client.result(record.id, { encoding: 'base64' }), 'base64');
  } catch (error) {
    const { message } = error as Error;
    context.say(`the exact bytes could not be read, so the output is shown as text: ${message}`);
    return as_text;
  }
}

async function report(context: Context, client: Client, record: ResultRecord): Promise<number> {
  const { stdout, stderr } = await exactOutputs(context, client, record);
  await write(process.stdout, stdout);
  await write(process.stderr, stderr);
  return conclude(context, record);
}

/** The record as every program gets it. */
async function reportJson(context: Context, record: ResultRecord): Promise<number> {
  context.answer(record);
  await write(process.stderr, outputsOf(record, 'utf8').stderr);
  return conclude(context, record);
}

function conclude(context: Context, record: ResultRecord): number {
  context.say(verdictLine(record));
  if (record.exit_code !== null) return record.exit_code;
  return record.verdict === 'CE' ? NOT_COMPILED : NO_RESULT;
}

/** Settles when everything is written, so that the exit that follows cuts nothing off. */
function write(stream: NodeJS.WriteStream, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    if (bytes.length === 0) resolve();
    // A reader that has gone (`| head`) is not a failure of the program.
    else stream.once('error', () => resolve()).write(bytes, () => resolve());
  });
}

function verdictLine(record: ResultRecord): string {
  const { verdict, exit_code, signal, cpu_time, wall_time, memory_peak } = record;
  const parts = [
    verdict ?? record.status,
    ...(signal !== null ? [signal] : []),
    ...(exit_code !== null ? [`exit ${exit_code}`] : []),
    ...(cpu_time !== null ? [`cpu ${cpu_time.toFixed(3)} s`] : []),
    ...(wall_time !== null ? [`wall ${wall_time.toFixed(3)} s`] : []),
    ...(memory_peak !== null ? [`memory ${(memory_peak / 2 ** 20).toFixed(1)} MiB`] : []),
    ...(record.stdout_truncated ? ['stdout cut'] : []),
    ...(record.stderr_truncated ? ['stderr cut'] : []),
    record.id,
  ];
  return parts.join('  ');
}

/** Where an answer was lost, nobody knows whether it was accepted. */
function explain(context: Context, error: unknown): number {
  if (error instanceof CommandFailed) throw error;
  const what = error instanceof ApiError && !error.may_be_done ? 'not run: ' : 'no result: ';
  context.say(`${error instanceof ResultNotRead ? '' : what}${callText(error)}`);
  return NO_RESULT;
}
