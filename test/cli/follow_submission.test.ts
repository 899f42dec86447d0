/** How a command waits for what it has submitted. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { followSubmission } from '../../src/cli/follow_submission.ts';
import { sayRetries } from '../../src/cli/spinner.ts';
import { createClient } from '../../src/client/client.ts';
import { answering } from '../client/answering.ts';
import { until } from '../support/eventually.ts';
import { CLI } from './command_line.ts';

const ACCEPTED = { status: 202, body: '{"id":"an-id"}' };
const ENDED = { body: '{"id":"an-id","status":"completed","verdict":"AC"}' };
const LOST = { status: 401, body: '{"message":"no"}' };
const STREAM = {
  type: 'text/event-stream',
  body: [
    'id: 1\nevent: started\ndata: {}\n\n',
    'event: progress\ndata: {"done":1,"of":3}\n\n',
    'event: progress\ndata: {"done":2,"of":3}\n\n',
    'id: 2\nevent: completed\ndata: {}\n\n',
  ].join(''),
};

async function following(t: Test, answers: Parameters<typeof answering>[1]) {
  const { origin, seen } = await answering(t, answers);
  const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
  const shown: string[] = [];
  const onProgress = (done: number, of: number) => shown.push(`${done} of ${of}`);
  const request = { language: 'python', code: '' };
  const ended = await followSubmission(client, request, onProgress).catch((error) => error);
  return { ended, shown, seen };
}

t.test('the progress of a whole run is one request', async (t) => {
  const { ended, shown, seen } = await following(t, [ACCEPTED, STREAM, ENDED]);
  t.match(ended, { verdict: 'AC' });
  t.same(shown, ['1 of 3', '2 of 3']);
  t.same(seen, [
    'POST /api/submit',
    'GET /api/result/an-id/events',
    'GET /api/result/an-id?wait=true',
  ]);
});

t.test('without a stream it waits for the result all the same', async (t) => {
  for (const refusal of [LOST, { body: '{}' }, { status: 204, body: '' }]) {
    const { ended, shown } = await following(t, [ACCEPTED, refusal, ENDED]);
    t.match(ended, { verdict: 'AC' });
    t.same(shown, []);
  }
});

t.test('it does not wait for a stream where too many are open', async (t) => {
  const full = { status: 429, body: '{"error":"rate_limited","message":"no"}' };
  const { ended, seen } = await following(t, [ACCEPTED, full, ENDED]);
  t.match(ended, { verdict: 'AC' });
  t.same(seen, [
    'POST /api/submit',
    'GET /api/result/an-id/events',
    'GET /api/result/an-id?wait=true',
  ]);
});

t.test('it says why it sends again, until it is accepted', async (t) => {
  const down = { status: 503, body: '{"error":"unavailable","message":"no"}' };
  for (const onProgress of [null, () => {}]) {
    const answers = [down, down, ACCEPTED, ...(onProgress ? [STREAM] : []), down, ENDED];
    const { origin } = await answering(t, answers);
    const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
    const said: (string | null)[] = [];
    const request = { language: 'python', code: '' };
    await followSubmission(client, request, onProgress, { onSending: (word) => said.push(word) });
    t.same(said, ['unavailable', 'unavailable', null]);
  }
});

t.test('an error behind the acceptance names the submission', async (t) => {
  const { ended } = await following(t, [ACCEPTED, STREAM, LOST]);
  t.match(ended.message, /^submission an-id was accepted, but no result: no; .*not send it again$/);
  const rejected = await following(t, LOST);
  t.equal(rejected.ended.message, 'no');
});

t.test('Ctrl-C ends the command, and names the submission that goes on', async (t) => {
  const folder = t.testdir({
    'a.py': 'x',
    one: {
      'problem.yaml': 'problem_format_version: 2025-09\nname: One\nuuid: 1\n',
      data: { secret: { '1.in': '', '1.ans': '' } },
    },
  });
  const file = join(folder, 'a.py');
  const sets = { body: '{"test_sets":[]}' };
  const away = { status: 503, body: '{"error":"unavailable","message":"no"}' };
  for (const [args, before] of [
    [['run', file], []],
    [
      ['judge', file, '--package', join(folder, 'one')],
      [sets, { body: '{"id":"a-set"}' }],
    ],
  ] as const) {
    const { origin, seen } = await answering(t, [...before, ACCEPTED, away]);
    const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: origin };
    const child = spawn(process.execPath, [CLI, ...args], { env, stdio: 'pipe' });
    t.teardown(() => child.kill('SIGKILL'));
    const [said, ended] = [text(child.stderr), once(child, 'exit')];
    await until(() => seen.some((call) => call.startsWith('GET /api/result/an-id')));
    child.kill('SIGINT');
    t.same(await ended, [130, null], args[0]);
    t.equal(
      await said,
      'interrupted: submission an-id was accepted; it goes on, so read /api/result/an-id and do not send it again\n',
    );
    t.notOk(
      seen.some((call) => call.startsWith('DELETE')),
      'it is not cancelled',
    );
  }
});

const ASKING =
  'interrupted: waiting for the answer whether it was accepted; Ctrl-C again ends at once\n';
const MAYBE =
  'interrupted: a submission may have been accepted: look at /api/submissions before you send it again\n';

/** A server whose answer to a submit comes when the test says so. */
async function holding(t: Test) {
  const held: ServerResponse[] = [];
  const server = createServer((req, res) => {
    req.resume();
    held.push(res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held };
}

function running(t: Test, server: string) {
  const file = join(t.testdir({ 'a.py': 'x' }), 'a.py');
  const env = { RUNLEDGER_API_KEY: 'x', RUNLEDGER_SERVER: server };
  const child = spawn(process.execPath, [CLI, 'run', file], { env, stdio: 'pipe' });
  t.teardown(() => child.kill('SIGKILL'));
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece;
  });
  const ended = once(child, 'close');
  return { child, ended, said: () => said };
}

t.test('Ctrl-C before the answer to the submit waits for it, and says what it was', async (t) => {
  const json = { 'content-type': 'application/json' };
  for (const [status, body, line] of [
    [
      202,
      '{"id":"an-id"}',
      'interrupted: submission an-id was accepted; it goes on, so read /api/result/an-id and do not send it again\n',
    ],
    [
      200,
      '{"id":"an-id","status":"completed","verdict":"AC"}',
      'interrupted: submission an-id was accepted, and has ended: read /api/result/an-id\n',
    ],
    [400, '{"error":"invalid_request","message":"no"}', 'interrupted: nothing was accepted\n'],
    [
      429,
      '{"error":"rate_limited","message":"no"}',
      'not accepted yet (rate_limited): trying again for two minutes\ninterrupted: nothing was accepted\n',
    ],
    [
      500,
      '{"error":"internal","message":"no"}',
      `not accepted yet (internal): trying again for two minutes\n${MAYBE}`,
    ],
  ] as const) {
    const { origin, held } = await holding(t);
    const { child, ended, said } = running(t, origin);
    await until(() => held.length === 1);
    child.kill('SIGINT');
    await until(() => said() === ASKING);
    held[0]!.writeHead(status, json).end(body);
    t.same(await ended, [130, null], body);
    t.equal(said(), `${ASKING}${line}`);
    t.equal(held.length, 1, 'it is not sent again');
  }
});

t.test('a second Ctrl-C ends the wait for the answer', async (t) => {
  const { origin, held } = await holding(t);
  const { child, ended, said } = running(t, origin);
  await until(() => held.length === 1);
  child.kill('SIGINT');
  await until(() => said() === ASKING);
  child.kill('SIGINT');
  t.same(await ended, [130, null]);
  t.equal(said(), `${ASKING}${MAYBE}`);
});

t.test('Ctrl-C while nothing can be sent ends at once', async (t) => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  gone.close();
  await once(gone, 'close');
  const { child, ended, said } = running(t, `http://127.0.0.1:${port}`);
  await until(() => said().includes('trying again'));
  child.kill('SIGINT');
  t.same(await ended, [130, null]);
  t.match(said(), /\ninterrupted: nothing was accepted\n$/);
});

t.test('it says for how long it is sent again: on a terminal in its line, elsewhere once', (t) => {
  const { isTTY } = process.stderr;
  t.teardown(() => {
    process.stderr.isTTY = isTTY;
  });
  for (const [is_terminal, lines] of [
    [false, ['not accepted yet (unreachable): trying again for two minutes']],
    [true, []],
  ] as const) {
    process.stderr.isTTY = is_terminal;
    const [said, spun]: string[][] = [[], []];
    const spinner = { say: (text: string) => spun!.push(text), stop() {} };
    const say = sayRetries(spinner, 'running', (line) => said!.push(line));
    for (const word of ['unreachable', 'unavailable', null]) say(word);
    t.same(said, lines);
    t.same(spun, [
      'unreachable: trying again for two minutes',
      'unavailable: trying again for two minutes',
      'running',
    ]);
  }
  t.end();
});
