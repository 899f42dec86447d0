/**
 * The tools that `./runledger mcp` offers. Each is a call of the API with the caller's key, so rates, limits and the log hold
 * as for anyone. An error of the service is a result that says so: the model that called can correct its call.
 */
import { once } from 'node:events';
import { type CallToolResult, McpServer, type ServerContext } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { ApiError, type Client } from '../client/client.ts';
import { REQUEST_LIMITS, type RequestLimitName } from '../domain/limits.ts';

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

const READ = v.strictObject({ id: described('The id of a submission.') });

/** Serves until the other side closes stdin. */
export async function serveTools(client: Client): Promise<void> {
  // A file, as /dev/null is, ends and does not close.
  const closed = Promise.race([once(process.stdin, 'end'), once(process.stdin, 'close')]);
  const handle = serveStdio(() => serverOf(client));
  await closed;
  await handle.close();
}

function serverOf(client: Client): McpServer {
  const server = new McpServer({ name: 'runledger', version: '1.0.0' });
  server.registerTool(
    'run_code',
    {
      description:
        'Run a program in a sandbox without network, and get its verdict, output, time and memory.',
      inputSchema: toStandardJsonSchema(RUN),
    },
    (request, context) => answer(context, (signal) => client.run(request, { signal })),
  );
  server.registerTool(
    'run_tests',
    {
      description:
        'Run a program on tests and compare its output: one verdict for all, and one for each test.',
      inputSchema: toStandardJsonSchema(JUDGE),
    },
    (request, context) =>
      answer(context, (signal) => client.run({ ...request, stop: 'never' }, { signal })),
  );
  server.registerTool(
    'read_result',
    {
      description: 'Read the record of an earlier submission of this account.',
      inputSchema: toStandardJsonSchema(READ),
      annotations: { readOnlyHint: true },
    },
    ({ id }, context) => answer(context, (signal) => client.result(id, { signal })),
  );
  server.registerTool(
    'list_languages',
    {
      description: 'List the languages: aliases, versions, and whether one can run now.',
      inputSchema: toStandardJsonSchema(v.strictObject({})),
      annotations: { readOnlyHint: true },
    },
    (_, context) => answer(context, (signal) => client.toolchains({ signal })),
  );
  return server;
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
