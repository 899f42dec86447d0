/** When a tool answers before its program has ended, and what it says. */
import t, { type Test } from 'tap';
import { toolRuns } from '../../src/cli/tool_runs.ts';
import { createClient } from '../../src/client/client.ts';

const PROGRAM = { language: 'python', code: '' };
const PENDING = { id: 'an-id', status: 'pending' };
const ENDED = { id: 'an-id', status: 'completed' };

type Call = { path: string; key: string | undefined };
/** `hang`: the call gets no answer, and its time is over. */
type Answer = { status?: number; body: object } | 'hang' | 'lost';

function runsWith(t: Test, answers: Answer[], whenHanging?: () => void) {
  const calls: Call[] = [];
  let end = new AbortController();
  const send: typeof fetch = async (address, init) => {
    const { headers, signal } = init as { headers: Record<string, string>; signal: AbortSignal };
    calls.push({ path: new URL(String(address)).pathname, key: headers['idempotency-key'] });
    const answer = answers.shift();
    if (answer === undefined) throw new Error(t.fail('too many calls') ? '' : 'too many calls');
    if (answer === 'lost') throw new Error('cut');
    if (answer !== 'hang') return Response.json(answer.body, { status: answer.status ?? 200 });
    (whenHanging ?? (() => end.abort()))();
    signal.throwIfAborted();
    throw new Error('it was not ended');
  };
  const options = { server: 'http://x.example', api_key: 'x', attempts: 1, fetch: send };
  const limit = () => {
    end = new AbortController();
    return end.signal;
  };
  return { runs: toolRuns(createClient(options), limit), calls };
}

const { signal } = new AbortController();
const accepted = { status: 408, body: PENDING };

t.test('a program that has not ended in time is answered with its id', async (t) => {
  const running = { body: { ...PENDING, status: 'running' } };
  const { runs } = runsWith(t, [accepted, 'hang', running]);
  const next = /read_result with this id.*do not send it again/;
  t.match(await runs.run(PROGRAM, signal), { id: 'an-id', status: 'running', next });
  const reading = runsWith(t, ['hang', running]);
  t.match(await reading.runs.read('an-id', signal), { id: 'an-id', status: 'running', next });
  const ended = runsWith(t, [accepted, 'hang', { body: ENDED }]);
  t.same(await ended.runs.run(PROGRAM, signal), ENDED, 'it has ended since');
});

t.test('an error behind the acceptance names the submission', async (t) => {
  const refused: Answer = { status: 401, body: { error: 'unauthorized', message: 'no such key' } };
  for (const [answers, why] of [
    [[accepted, refused], 'no such key'],
    [[accepted, 'hang', 'lost'], 'cannot reach '],
  ] as const) {
    const { runs } = runsWith(t, [...answers]);
    const error = await runs.run(PROGRAM, signal).catch((thrown) => thrown);
    t.ok(error.message.startsWith(`submission an-id was accepted, but no result: ${why}`));
  }
});

t.test('the same call behind one that gave no id is the same submission', async (t) => {
  for (const first of ['lost', 'hang'] as const) {
    const done = { body: ENDED };
    const { runs, calls } = runsWith(t, [first, done, done, done]);
    const error = await runs.run(PROGRAM, signal).catch((thrown) => thrown);
    const says = first === 'lost' ? /^cannot reach/ : /call again with the same arguments/;
    t.match(error.message, says);
    await runs.run({ ...PROGRAM, code: 'other' }, signal);
    await runs.run(PROGRAM, signal);
    await runs.run(PROGRAM, signal);
    const [lost, other, again, later] = calls.map(({ key }) => key);
    t.equal(again, lost);
    t.not(other, lost);
    t.not(later, lost, 'but only until it was answered');
  }
});

t.test('an answer that came in time says more than that the time is over', async (t) => {
  const limited = { error: 'rate_limited', message: 'The rate of this key is spent.' };
  const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>();
  const refused: typeof fetch = async () => {
    setTimeout(onAsked);
    return Response.json(limited, { status: 429, headers: { 'retry-after': '60' } });
  };
  const client = createClient({ server: 'http://x.example', api_key: 'x', fetch: refused });
  const end = new AbortController();
  asked.then(() => end.abort());
  const runs = toolRuns(client, () => end.signal);
  const error = await runs.run(PROGRAM, signal).catch((thrown) => thrown);
  t.match(error.message, /does not run twice; the last try: The rate of this key is spent/);
});

t.test('a call that the model ended is the same submission, too', async (t) => {
  const gone = new AbortController();
  const { runs, calls } = runsWith(t, [accepted, 'hang', { body: ENDED }], () => gone.abort());
  await t.rejects(runs.run(PROGRAM, gone.signal), { name: 'AbortError' });
  await runs.run(PROGRAM, signal);
  t.equal(calls.at(-1)!.key, calls[0]!.key);
});
