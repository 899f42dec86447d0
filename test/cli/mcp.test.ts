/** `./runledger mcp` with the client of the protocol's own library, against the real service. */
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import t, { type Test } from 'tap';
import { answering, PAGE } from '../client/answering.ts';
import { endingAll } from '../client/ending.ts';
import { startService } from '../http/support/service.ts';
import { CLI, runledger, runProgram } from './command_line.ts';

async function connected(t: Test, env: Record<string, string>) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [CLI, 'mcp'],
    env,
    stderr: 'inherit',
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  t.teardown(() => client.close());
  const call = async (name: string, args: Record<string, unknown>) => {
    const { content, isError = false } = await client.callTool({ name, arguments: args });
    const [first] = content as { text: string }[];
    const { text } = first!;
    return { text, isError, json: isError ? null : JSON.parse(text) };
  };
  return { client, call };
}

t.test('tools run code, run tests, read results and list languages', async (t) => {
  const service = await startService(t, { webs: 1 });
  const env = {
    PATH: process.env['PATH']!,
    RUNLEDGER_SERVER: service.webs[0]!.origin,
    RUNLEDGER_API_KEY: await service.key(),
  };
  const { client, call } = await connected(t, env);

  const { tools } = await client.listTools();
  t.strictSame(tools.map(({ name }) => name).sort(), [
    'list_languages',
    'read_result',
    'run_code',
    'run_tests',
  ]);
  for (const { name, description, inputSchema } of tools) {
    t.ok(description?.endsWith('.'), name);
    t.equal(inputSchema.type, 'object', name);
  }

  const program = { language: 'python', code: 'print(6 * 7)' };
  const ran = await endingAll(service, call('run_code', { ...program, stdin: 'x' }));
  t.match(ran.json, { verdict: 'AC', stdout: '42\n' });
  t.match((await call('read_result', { id: ran.json.id })).json, { id: ran.json.id });
  const tests = [{ stdin: '1', expected_output: '42' }];
  const judged = await endingAll(service, call('run_tests', { ...program, tests }));
  t.equal(judged.json.status, 'completed');
  const sent = await service.db<{ kind: string }[]>`
    select kind from runledger.payloads where stream = ${judged.json.id}`;
  const kinds = sent.map(({ kind }) => kind);
  t.ok(kinds.includes('judging'), 'the tests were sent');
  t.match((await call('list_languages', {})).json, [{ name: 'cpp' }, {}, {}]);

  const refused = await call('run_code', { ...program, limits: { memory: 1 } });
  t.ok(refused.isError);
  t.match(refused.text, /^invalid_request: .*\n {2}limits\.memory must be at least/);
  const unknown = await call('read_result', { id: '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10' });
  t.match(unknown, { isError: true, text: /^not_found: / });
  const wrong = await call('run_code', { language: 'python' }).catch((error: Error) => ({
    isError: true,
    text: error.message,
  }));
  t.match(wrong, { isError: true, text: /code/ }, 'the schema of a tool holds');
});

t.test('a tool says in one line that its server is another program', async (t) => {
  const { origin } = await answering(t, PAGE);
  const env = { PATH: process.env['PATH']!, RUNLEDGER_SERVER: origin, RUNLEDGER_API_KEY: 'x' };
  const { call } = await connected(t, env);
  const text = `unexpected_answer: ${origin} answered 200, but not as Runledger does: check the address`;
  const program = { language: 'python', code: '' };
  for (const [name, args] of [
    ['run_code', program],
    ['run_tests', { ...program, tests: [{ expected_output: '' }] }],
    ['read_result', { id: '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10' }],
    ['list_languages', {}],
  ] as const)
    t.match(await call(name, args), { isError: true, text }, name);
});

t.test('it ends with its input, and needs a key', async (t) => {
  const env = { RUNLEDGER_SERVER: 'http://127.0.0.1:1', RUNLEDGER_API_KEY: 'x' };
  for (const line of ['"$0" "$1" mcp </dev/null', ': | "$0" "$1" mcp']) {
    const ran = await runProgram('sh', ['-c', line, process.execPath, CLI], { cwd: '.', env });
    t.match(ran, { status: 0, stdout: '', stderr: '' }, line);
  }
  const { RUNLEDGER_API_KEY: _, ...keyless } = env;
  t.match(await runledger(['mcp'], keyless), { status: 2, stderr: /RUNLEDGER_API_KEY is not set/ });
});
