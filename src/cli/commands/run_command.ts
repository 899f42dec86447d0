/** `./runledger run`: submits a file, waits, and exits with the program's status. */
import { ApiError, type Client, type SubmissionRequest } from '../../client/client.ts';
import type { ResultRecord } from '../../domain/record.ts';
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import { type Command, type Context, JSON_OPTION } from '../command.ts';
import { readInput, requestOfFile } from '../program_request.ts';
import { startSpinner } from '../spinner.ts';

/** The status when the program could not be run; few programs end with it. */
const NOT_RUN = 125;
/** The status of a compiler that rejects its source. */
const NOT_COMPILED = 1;

export const command: Command = {
  summary: 'submit a file, wait, print its output, and exit with its exit status',
  words: [{ name: 'FILE', help: 'the source file; - is stdin' }],
  options: {
    stdin: { value: 'FILE', help: 'the input of the program' },
    language: { value: 'L', help: 'the language, if the file name does not imply it' },
    server: SERVER_OPTION,
    json: JSON_OPTION,
  },
  example: 'run hello.py',
  async run(context) {
    const request = await readRequest(context);
    const client = clientOf(context);
    const spinner = startSpinner('running');
    try {
      const record = await exactRecord(client, await client.run(request));
      spinner.stop();
      return report(context, record);
    } catch (error) {
      spinner.stop();
      return explain(context, error);
    }
  },
};

async function readRequest({ words, options }: Context): Promise<SubmissionRequest> {
  const { language, stdin } = options;
  const named = typeof language === 'string' ? language : undefined;
  return {
    ...(await requestOfFile(words[0]!, named)),
    ...(typeof stdin === 'string' && {
      stdin_base64: (await readInput(stdin)).toString('base64'),
    }),
  };
}

/** U+FFFD may stand for bytes that are not UTF-8: then ask for the exact bytes. */
async function exactRecord(client: Client, record: ResultRecord): Promise<ExactRecord> {
  const text = `${record.stdout ?? ''}${record.stderr ?? ''}`;
  if (!text.includes('\ufffd')) return { record, encoding: 'utf8' };
  return { record: await client.result(record.id, { encoding: 'base64' }), encoding: 'base64' };
}

type ExactRecord = { record: ResultRecord; encoding: 'utf8' | 'base64' };

async function report(context: Context, { record, encoding }: ExactRecord): Promise<number> {
  const bytes = (text: string | null) => Buffer.from(text ?? '', encoding);
  if (context.json) context.answer(record);
  else await write(process.stdout, bytes(record.stdout));
  await write(process.stderr, bytes(record.stderr));
  context.say(verdictLine(record));
  if (record.exit_code !== null) return record.exit_code;
  return record.verdict === 'CE' ? NOT_COMPILED : NOT_RUN;
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

function explain(context: Context, error: unknown): number {
  const { message } = error as Error;
  const id = error instanceof ApiError && error.request_id ? ` (request ${error.request_id})` : '';
  context.say(`not run: ${message}${id}`);
  return NOT_RUN;
}
