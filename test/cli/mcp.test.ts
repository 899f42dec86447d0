/** `./runledger mcp` with the client of the protocol's own library, against the real service. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import t, { type Test } from 'tap';
import { answering, PAGE } from '../client/answering.ts';
import { endingAll } from '../client/ending.ts';
import { startService } from '../http/support/service.ts';
import { CLI, runledger, runProgram } from './command_line.ts';

/** A busy machine may take longer than the library waits, which is 60 s. What hangs is ended by the runner. */
const PATIENCE = { timeout: 600_000 };

async function connected(t: Test, env: Record<string, string>) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [CLI, 'mcp'],
    env,
    stderr: 'inherit',
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport, PATIENCE);
  t.teardown(() => client.close());
  const call = async (name: string, args: Record<string, unknown>) => {
    const asked = { name, arguments: args };
    const { content, isError = false } = await client.callTool(asked, PATIENCE);
    const [first] = content as { text: string }[];
    const { text } = first!;
    return { text, isError, json: isError ? null : JSON.parse(text) };
  };
  const tools = async () => (await client.listTools({}, PATIENCE)).tools;
  return { tools, call };
}

t.test('tools run code, run tests, read results and list languages', async (t) => {
  const service = await startService(t, { webs: 1 });
  const env = {
    PATH: process.env['PATH']!,
    RUNLEDGER_SERVER: service.webs[0]!.origin,
    RUNLEDGER_API_KEY: await service.key(),
  };
  const { tools, call } = await connected(t, env);

  const listed = await tools();
  t.strictSame(listed.map(({ name }) => name).sort(), [
    'list_languages',
    'read_result',
    'run_code',
    'run_tests',
  ]);
  for (const { name, description, inputSchema } of listed) {
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

t.test('a long output is cut, and can be read to its end', async (t) => {
  const id = '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10';
  const stdout = `a${'é'.repeat(10_000)}`;
  const of = (n: number) => ({ n, verdict: 'WA', stdout: 'x'.repeat(n * 4_096), stderr: '' });
  const tests = [1, 2, 3].map((n) => ({ ...of(n), message: n === 1 ? 'm'.repeat(9_000) : null }));
  const files = [{ path: 'out.bin', content_base64: 'A'.repeat(16_384) }];
  const record = { id, status: 'completed', stdout, stderr: 'short', tests, files };
  const { origin } = await answering(t, { body: JSON.stringify(record) });
  const env = { PATH: process.env['PATH']!, RUNLEDGER_SERVER: origin, RUNLEDGER_API_KEY: 'x' };
  const { call } = await connected(t, env);
  const program = { language: 'python', code: '' };
  const expected = [
    { output: 'stdout', bytes: 20_001, shown: 8_191 },
    { output: 'tests[0].message', bytes: 9_000, shown: 8_192 },
    { output: 'tests[2].stdout', bytes: 12_288, shown: 8_192 },
    { output: 'files[0].content_base64', bytes: 16_384, shown: 8_192 },
  ];
  for (const [name, args] of [
    ['run_code', program],
    ['run_tests', { ...program, tests: [{ expected_output: '' }] }],
    ['read_result', { id }],
  ] as const) {
    const { json } = await call(name, args);
    t.strictSame(json.cut, expected, name);
    t.equal(json.stdout, stdout.slice(0, 1 + 4_095), 'at the end of a character');
    t.equal(json.stderr, 'short');
    t.equal(json.tests[1].stdout.length, 8_192);
    t.equal(json.tests[2].stdout.length, 8_192);
  }

  let text = '';
  let offset: number | null = 0;
  while (offset !== null) {
    const { json } = await call('read_result', { id, output: 'stdout', offset });
    t.match(json, { id, output: 'stdout', offset, bytes: 20_001 });
    text += json.text;
    offset = json.next_offset;
  }
  t.equal(text, stdout);
  const some = await call('read_result', { id, offset: 4, length: 7 });
  const is = { id, output: 'stdout', offset: 3, next_offset: 9, bytes: 20_001, text: 'ééé' };
  t.strictSame(some.json, is, 'from the character that the offset is in');
  const message = await call('read_result', { id, output: 'tests[0].message', offset: 8_192 });
  t.match(message.json, { text: 'm'.repeat(808), next_offset: null });
  const behind = await call('read_result', { id, output: 'stderr', offset: 99 });
  t.match(behind.json, { text: '', offset: 5, next_offset: null });
  for (const output of ['transcript', 'tests[9].stdout', 'tests[1].message', 'id', '__proto__'])
    t.match(await call('read_result', { id, output }), {
      isError: true,
      text: `submission ${id} has no ${output}`,
    });
});

t.test('all outputs of a result together are cut, too', async (t) => {
  const tests = Array.from({ length: 20 }, (_, n) => ({ n, stdout: 'x'.repeat(4_096) }));
  const record = { id: 'x', status: 'completed', stdout: null, stderr: null, tests };
  const { call } = await readingFrom(t, record);
  const { json } = await call('read_result', { id: 'x' });
  t.equal(json.tests[15].stdout.length, 4_096);
  t.equal(json.tests[16].stdout, '');
  t.equal(json.cut.length, 4);
  t.strictSame(json.cut[0], { output: 'tests[16].stdout', bytes: 4_096, shown: 0 });
  t.notOk('tests_left_out' in json);
});

t.test('what JSON escapes counts as long as a model reads it', async (t) => {
  const stdout = `${'\0'.repeat(65_535)}é`;
  const tests = Array.from({ length: 20 }, (_, n) => ({ n, stdout: '\u001b'.repeat(4_096) }));
  const others = { stderr: '\n"\\\t'.repeat(4_000), transcript: '\0'.repeat(65_536) };
  const record = { id: 'x', status: 'completed', stdout, ...others, tests };
  const { call } = await readingFrom(t, record);
  const { json, text } = await call('read_result', { id: 'x' });
  t.ok(text.length < 70 * 1024, `${text.length} characters`);
  t.match(json.cut.slice(0, 3), [
    { output: 'stdout', bytes: 65_537, shown: Math.floor(8_192 / 6) },
    { output: 'stderr', bytes: 16_000, shown: 4_096 },
    { output: 'transcript', bytes: 65_536, shown: 1_365 },
  ]);
  t.equal(json.stdout.length, 1_365);

  let read = '';
  let last = 0;
  for (let offset: number | null = 0; offset !== null; ) {
    const asked = { id: 'x', output: 'stdout', offset, length: 65_536 };
    const part = await call('read_result', asked);
    t.ok(part.text.length < 66 * 1024, `${part.text.length} characters`);
    read += part.json.text;
    last = offset;
    offset = part.json.next_offset;
  }
  t.ok(read === stdout, 'nothing is left out, and nothing comes twice');
  t.equal(last, 10_922 * 6, 'an offset counts the bytes of the output');
  const least = await call('read_result', { id: 'x', offset: 1, length: 6 });
  t.match(least.json, { text: '\0', next_offset: 2 });
  const [end] = (await call('read_result', { id: 'x', offset: 65_535, length: 6 })).json.text;
  t.equal(end, 'é');
});

async function readingFrom(t: Test, record: object) {
  const { origin } = await answering(t, { body: JSON.stringify(record) });
  const env = { PATH: process.env['PATH']!, RUNLEDGER_SERVER: origin, RUNLEDGER_API_KEY: 'x' };
  return connected(t, env);
}

t.test(
  'of thousands of tests, the first that failed are there, and the others can be read',
  async (t) => {
    const fails = (n: number) => n % 100 === 0;
    const tests = Array.from({ length: 5_000 }, (_, index) => {
      const n = index + 1;
      const verdict = n > 4_990 ? null : fails(n) ? 'WA' : 'AC';
      return {
        n,
        name: `test ${n}`,
        verdict,
        stdout: 'x'.repeat(4_096),
        stderr: '',
        message: null,
      };
    });
    const record = {
      id: 'x',
      status: 'completed',
      verdict: 'WA',
      stdout: null,
      stderr: null,
      tests,
    };
    const { call } = await readingFrom(t, record);
    const program = { language: 'python', code: '' };
    for (const [name, args] of [
      ['run_code', program],
      ['run_tests', { ...program, tests: [{ expected_output: '' }] }],
      ['read_result', { id: 'x' }],
    ] as const) {
      const { json, text } = await call(name, args);
      t.ok(text.length < 100_000, `${name}: ${text.length}`);
      const numbers = json.tests.map(({ n }: { n: number }) => n);
      t.same(
        numbers,
        Array.from({ length: 20 }, (_, index) => 100 * (index + 1)),
        name,
      );
      const { next, ...counts } = json.tests_left_out;
      const verdicts = { AC: 4_941, WA: 49, 'not run': 10 };
      t.same(counts, { tests: 5_000, shown: 20, failed: 49, verdicts });
      t.match(next, /first_test, from 1 to 5000,/);
      t.same(json.cut[0], { output: 'tests[1699].stdout', bytes: 4_096, shown: 0 }, 'by its place');
    }
    const cut = await call('read_result', { id: 'x', output: 'tests[1699].stdout' });
    t.equal(cut.json.text.length, 4_096);

    const seen: number[] = [];
    for (let first: number | null = 4_901; first !== null; ) {
      const { json, text } = await call('read_result', { id: 'x', first_test: first });
      t.ok(text.length < 100_000);
      t.equal(json.cut[0].output, `tests[${first + 15}].stdout`);
      seen.push(...json.tests.map(({ n }: { n: number }) => n));
      first = json.next_test;
    }
    t.same(
      seen,
      Array.from({ length: 100 }, (_, index) => 4_901 + index),
    );
    const behind = await call('read_result', { id: 'x', first_test: 5_001 });
    t.match(behind, { isError: true, text: 'submission x has no test 5001' });
    const both = await call('read_result', { id: 'x', first_test: 1, output: 'stdout' });
    t.match(both, { isError: true, text: /^first_test reads tests, and/ });
  },
);

t.test('where none of many tests failed, the counts say it', async (t) => {
  const tests = Array.from({ length: 21 }, (_, index) => ({ n: index + 1, verdict: 'AC' }));
  const { call } = await readingFrom(t, { id: 'x', status: 'completed', verdict: 'AC', tests });
  const { json } = await call('read_result', { id: 'x' });
  t.same(json.tests, []);
  t.match(json.tests_left_out, { tests: 21, shown: 0, failed: 0, verdicts: { AC: 21 } });
});

t.test('a null is as if the argument were absent', async (t) => {
  const { origin, bodies } = await answering(t, { body: '{"id":"x","status":"completed"}' });
  const env = { PATH: process.env['PATH']!, RUNLEDGER_SERVER: origin, RUNLEDGER_API_KEY: 'x' };
  const { call } = await connected(t, env);
  const program = { language: 'python', code: '' };
  const nulls = { stdin: null, args: null, limits: null };
  t.strictSame((await call('run_code', { ...program, ...nulls })).json.id, 'x');
  const test = { name: null, stdin: null, expected_output: '' };
  const limits = { cpu_time: 1, memory: null };
  await call('run_tests', { ...program, limits, tests: [test] });
  t.same(
    bodies.map((body) => JSON.parse(body)),
    [
      program,
      { ...program, limits: { cpu_time: 1 }, tests: [{ expected_output: '' }], stop: 'never' },
    ],
  );
  const read = await call('read_result', { id: 'x', output: null, offset: null, length: null });
  t.strictSame(read.json, { id: 'x', status: 'completed' });
  t.match(await call('run_code', { ...program, code: null }), { isError: true, text: /code/ });
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

t.test('it says why it ends before its input does', async (t) => {
  const env = { RUNLEDGER_SERVER: 'http://127.0.0.1:1', RUNLEDGER_API_KEY: 'x' };
  const ended = async (
    talk: (child: ChildProcessByStdio<Writable, Readable, Readable>) => void,
  ) => {
    const child = spawn(process.execPath, [CLI, 'mcp'], { env, stdio: 'pipe' });
    // It may end before it has read all.
    child.stdin.on('error', () => {});
    talk(child);
    const [stderr, [status]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    return { status, stderr };
  };
  t.match(await ended(({ stdin }) => stdin.write(`${'a'.repeat(11 << 20)}\n`)), {
    status: 1,
    stderr: /^[^\n]*the connection to the MCP client cannot go on: .*maximum size[^\n]*\n$/,
  });
  const nobodyReads = await ended(({ stdin, stdout }) => {
    stdout.destroy();
    stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
  });
  t.match(nobodyReads, { status: 1, stderr: /^[^\n]*cannot go on: .*EPIPE[^\n]*\n$/ });
});
