/**
 * The tools that `./runledger mcp` offers. Each is a call of the API with the caller's key, so rates, limits and the log hold
 * as for anyone. An error of the service is a result that says so: the model that called can correct its call.
 */
import { type CallToolResult, McpServer, type ServerContext } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { ApiError, type Client } from '../client/client.ts';
import { REQUEST_LIMITS, type RequestLimitName } from '../domain/limits.ts';
import { CommandFailed } from './command.ts';
import {
  PART_BYTES,
  PART_LEAST_BYTES,
  partOf,
  SHOWN_BYTES,
  shownRecord,
  TESTS_SHOWN,
  testsFrom,
} from './tool_record.ts';
import { type ToolRuns, toolRuns } from './tool_runs.ts';

const described = (description: string) => v.pipe(v.string(), v.description(description));

type LimitEntries = Record<
  RequestLimitName,
  v.ExactOptionalSchema<v.GenericSchema<number>, undefined>
>;
const limits = REQUEST_LIMITS.map(({ name, description }) => {
  return [name, v.exactOptional(v.pipe(v.number(), v.description(description)))];
});
const LIMITS = v.pipe(
  v.strictObject(Object.fromEntries(limits) as LimitEntries),
  v.description('Limits of each run; those of the service where absent.'),
);

const PROGRAM = {
  language: described('A name that list_languages gives, or an alias of it.'),
  code: described('The source code of the whole program.'),
  limits: v.exactOptional(LIMITS),
};

const RUN = v.strictObject({
  ...PROGRAM,
  stdin: v.exactOptional(described('Standard input.')),
  args: v.exactOptional(v.pipe(v.array(v.string()), v.description('Arguments of the program.'))),
});

const JUDGE = v.strictObject({
  ...PROGRAM,
  tests: v.pipe(
    v.array(
      v.strictObject({
        name: v.exactOptional(v.string()),
        stdin: v.exactOptional(v.string()),
        expected_output: described('White space at the ends of lines does not count.'),
      }),
    ),
    v.minLength(1),
    v.description('Run in order, after one compile.'),
  ),
});

const READ = v.strictObject({
  id: described('The id of a submission.'),
  output: v.exactOptional(
    described(
      'Read only this output, by a name as in `cut`; stdout if there is an offset or a length.',
    ),
  ),
  offset: v.exactOptional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(0),
      v.description('The byte of UTF-8 to read it from; 0 if absent.'),
    ),
  ),
  length: v.exactOptional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(PART_LEAST_BYTES),
      v.maxValue(PART_BYTES),
      v.description(`The most bytes to read of it, counted as JSON; ${SHOWN_BYTES} if absent.`),
    ),
  ),
  first_test: v.exactOptional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.description(
        `Read only the ${TESTS_SHOWN} tests from this number on, in their order; without output, offset and length.`,
      ),
    ),
  ),
});
type Read = v.InferOutput<typeof READ>;

const LONG = `Long outputs are cut: \`cut\` then lists them with their sizes. Of more than ${TESTS_SHOWN} tests, the first that failed are there, and \`tests_left_out\` counts all. read_result reads on.`;

/** Models write null for an argument that they do not give. */
function inputOf<S extends v.GenericSchema<object>>(schema: S) {
  const { '~standard': standard } = toStandardJsonSchema(schema);
  const validate: typeof standard.validate = (value) => standard.validate(withoutNulls(value));
  return { '~standard': { ...standard, validate } };
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const given = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(given.map(([name, each]) => [name, withoutNulls(each)]));
}

/** It ends with stdin. It also ends by itself: where a message is too long for it, and where nobody reads its answers. */
class Connection extends StdioServerTransport {
  readonly #end = Promise.withResolvers<void>();
  readonly ended = this.#end.promise;

  override async close(): Promise<void> {
    await super.close();
    this.#end.resolve();
  }
}

/** Serves until the other side closes stdin. */
export async function serveTools(client: Client): Promise<void> {
  const connection = new Connection();
  let problem: Error | null = null;
  const onerror = (error: Error) => {
    problem = error;
  };
  const handle = serveStdio(() => serverOf(client), { transport: connection, onerror });
  await connection.ended;
  await handle.close();
  if (process.stdin.readableEnded || process.stdin.destroyed) return;
  const { message } = problem ?? new Error('it was closed');
  throw new CommandFailed(`the connection to the MCP client cannot go on: ${message}`);
}

function serverOf(client: Client): McpServer {
  const runs = toolRuns(client);
  const server = new McpServer({ name: 'runledger', version: '1.0.0' });
  server.registerTool(
    'run_code',
    {
      description: `Run a program in a sandbox without network, and get its verdict, output, time and memory. ${LONG}`,
      inputSchema: inputOf(RUN),
    },
    (request, context) =>
      answer(context, async (signal) => shownRecord(await runs.run(request, signal))),
  );
  server.registerTool(
    'run_tests',
    {
      description: `Run a program on tests and compare its output: one verdict for all, and one for each test. ${LONG}`,
      inputSchema: inputOf(JUDGE),
    },
    (request, context) =>
      answer(context, async (signal) =>
        shownRecord(await runs.run({ ...request, stop: 'never' }, signal)),
      ),
  );
  server.registerTool(
    'read_result',
    {
      description: `Read the record of an earlier submission of this account, or a part of one of its outputs. ${LONG}`,
      inputSchema: inputOf(READ),
      annotations: { readOnlyHint: true },
    },
    (asked, context) => answer(context, (signal) => read(runs, asked, signal)),
  );
  server.registerTool(
    'list_languages',
    {
      description: 'List the languages: aliases, versions, and whether one can run now.',
      inputSchema: inputOf(v.strictObject({})),
      annotations: { readOnlyHint: true },
    },
    (_, context) => answer(context, (signal) => runs.languages(signal)),
  );
  return server;
}

async function read(runs: ToolRuns, asked: Read, signal: AbortSignal): Promise<object> {
  const { id, offset = 0, length = SHOWN_BYTES, output = 'stdout', first_test } = asked;
  const names = Object.keys(asked).length;
  if (first_test !== undefined && names > 2)
    throw new Error('first_test reads tests, and the others an output: ask for one of the two');
  const record = await runs.read(id, signal);
  if (names === 1 || record.next !== undefined) return shownRecord(record);
  if (first_test !== undefined) {
    const tests = testsFrom(record, first_test);
    if (tests === null) throw new Error(`submission ${id} has no test ${first_test}`);
    return { id, ...tests };
  }
  const part = partOf(record, output, offset, length);
  if (part === null) throw new Error(`submission ${id} has no ${output}`);
  return { id, ...part };
}

async function answer(
  { mcpReq }: ServerContext,
  call: (signal: AbortSignal) => Promise<unknown>,
): Promise<CallToolResult> {
  try {
    return said(JSON.stringify(await call(mcpReq.signal), null, 2));
  } catch (error) {
    const word = error instanceof ApiError ? `${error.error}: ` : '';
    return { ...said(`${word}${(error as Error).message}`), isError: true };
  }
}

const said = (text: string): CallToolResult => ({ content: [{ type: 'text', text }] });
