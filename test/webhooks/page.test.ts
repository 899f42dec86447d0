/** Runs the receivers of WEBHOOKS.md exactly as they are printed, and sends real deliveries to them. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { packTests } from '../../src/domain/judged_record.ts';
import type { TestFacts } from '../../src/domain/judging_facts.ts';
import type { ResultRow } from '../../src/domain/record.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { OUTPUT_LIMIT_BYTES, webhookBody } from '../../src/webhooks/payload.ts';
import { sendWebhook } from '../../src/webhooks/send.ts';
import { signatureHeaders } from '../../src/webhooks/sign.ts';

type Delivery = {
  id?: string;
  secret?: string;
  at?: Date;
  tamper?: (body: Buffer) => unknown;
  result?: Partial<ResultRow>;
};

const page = readFileSync(new URL('../../WEBHOOKS.md', import.meta.url), 'utf8');
const recipes = Object.fromEntries(
  [...page.matchAll(/<!-- recipe: (\S+) -->\n```\w+\n(.*?)```/gs)].map(([, name, code]) => [
    name,
    code!,
  ]),
);
const ID = '01970000-0000-7000-8000-00000000000a';
const SECRET = 'a secret with ü, € and 😀';
const WHSEC = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
const MINUTE_MS = 60_000;

const row: ResultRow = {
  id: ID,
  account_id: '01970000-0000-7000-8000-0000000000ac',
  status: 'completed',
  language: 'python',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: Buffer.from('ü€😀\u0000\n'),
  stderr: Buffer.from([0xff]),
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time_us: 12_345,
  wall_time_us: 23_456,
  memory_peak_bytes: 9_000_000,
  compile: null,
  limits: null,
  limit_exceeded: null,
  created_at: new Date(),
  started_at: new Date(),
  completed_at: new Date(),
  attempts: 1,
  tests: null,
  score: null,
  parts: { tests: null, files: null, transcript: null },
  progress: null,
  proof: null,
};

/** Each text is full of what takes most in JSON, in as many tests as a set can have, with names that fill its paths. */
function largest(): Partial<ResultRow> {
  const { files, path_bytes } = DEFAULT_PACKAGE_BOUNDS;
  const count = files / 2;
  const name = '"'.repeat(path_bytes);
  const output = Buffer.alloc(OUTPUT_LIMIT_BYTES);
  const message = '\0'.repeat(OUTPUT_LIMIT_BYTES);
  const none = { name, group: name, message: '', stdout: Buffer.of(), stderr: Buffer.of() };
  const texts = Array.from({ length: count }, (_, n) =>
    n === 0 ? { ...none, message, stdout: output, stderr: output } : none,
  );
  const facts: TestFacts = {
    verdict: 'TLE',
    exit_code: 128 + 24,
    signal: 'SIGVTALRM',
    limit_exceeded: 'processes',
    cpu_time_us: 999_999_999,
    wall_time_us: 999_999_999,
    memory_peak_bytes: 999_999_999_999,
    score: null,
    stdout_truncated: false,
    stderr_truncated: false,
  };
  const parts = { tests: packTests(texts), files: null, transcript: output };
  return { stdout: output, stderr: output, tests: texts.map(() => facts), parts };
}

/** The status of one attempt. The receiver verifies with `known`; the sender signs with `secret`. */
async function deliver(
  port: number,
  known: string,
  delivery: Delivery = {},
): Promise<number | null> {
  const { id = ID, secret = known, at = new Date(), tamper, result } = delivery;
  const body = Buffer.from(webhookBody({ ...row, id, ...result }));
  const headers = {
    'content-type': 'application/json',
    ...signatureHeaders({ id, at, body, secret }),
  };
  tamper?.(body);
  const { status } = await sendWebhook(
    { url: `http://127.0.0.1:${port}/`, headers, body, at },
    {
      allow_loopback: true,
      signal: new AbortController().signal,
      resolve: async () => ({ kind: 'dns_failed', code: 'NOT_ASKED' }),
    },
  );
  return status;
}

async function openRecipe(t: Test, command: string, args: string[], secret: string) {
  const env = { ...process.env, PORT: '0', WEBHOOK_SECRET: secret };
  const receiver = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  t.teardown(() => stop(receiver));
  const lines = createInterface({ input: receiver.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  const port = Number(/^listening (\d+)$/.exec(first.value ?? '')?.[1]);
  t.ok(port > 0, `listens: ${first.value}`);
  return { port, next: async () => (await lines.next()).value as string };
}

async function stop(receiver: ChildProcess): Promise<void> {
  if (receiver.exitCode !== null || receiver.signalCode !== null) return;
  receiver.kill('SIGKILL');
  await once(receiver, 'exit');
}

async function judgeRecipe(t: Test, command: string, args: string[]): Promise<void> {
  for (const secret of [SECRET, WHSEC]) {
    const receiver = await openRecipe(t, command, args, secret);
    const attempt = (delivery?: Delivery) => deliver(receiver.port, secret, delivery);
    t.equal(await attempt({ secret: 'another secret' }), 400, 'signed with another secret');
    t.equal(
      await attempt({ tamper: (body) => body.fill(' ', body.length - 2, body.length - 1) }),
      400,
      'with a changed body',
    );
    t.equal(await attempt({ at: new Date(Date.now() - 6 * MINUTE_MS) }), 400, 'too old');
    t.equal(
      await attempt({ at: new Date(Date.now() + 6 * MINUTE_MS) }),
      400,
      'too far in the future',
    );
    t.equal(await attempt({ at: new Date(Date.now() - 4 * MINUTE_MS) }), 204, 'four minutes late');
    t.equal(await receiver.next(), `result ${ID} AC`);
    t.equal(await attempt(), 204, 'the same delivery again');
    const other = ID.replace(/a$/, 'b');
    t.equal(await attempt({ id: other }), 204, 'another delivery');
    t.equal(await receiver.next(), `result ${other} AC`, 'the repeated delivery had no effect');
    const large = ID.replace(/a$/, 'c');
    t.equal(await attempt({ id: large, result: largest() }), 204, 'the largest body');
  }
}

/** Writes the recipe to a file inside this project, so that it finds the packages. */
const write = (t: Test, name: string) => join(t.testdir({ [name]: recipes[name]! }), name);
const missing = (command: string, argument: string) =>
  spawnSync(command, [argument]).status === 0 ? false : `no ${command} on this machine`;

t.test('the JavaScript receiver, with the public library, verifies deliveries', async (t) => {
  await judgeRecipe(t, process.execPath, [write(t, 'receiver.mjs')]);
});

t.test(
  'the Python receiver verifies deliveries',
  { skip: missing('python3', '--version') },
  async (t) => {
    await judgeRecipe(t, 'python3', [write(t, 'receiver.py')]);
  },
);

t.test('the Go receiver verifies deliveries', { skip: missing('go', 'version') }, async (t) => {
  const program = join(t.testdir({}), 'receiver');
  const env = { ...process.env, CGO_ENABLED: '0', GO111MODULE: 'off', GOTOOLCHAIN: 'local' };
  const built = spawnSync('go', ['build', '-o', program, write(t, 'receiver.go')], {
    env,
    encoding: 'utf8',
  });
  t.equal(built.status, 0, built.stderr);
  await judgeRecipe(t, program, []);
});

t.test('the page says how large a body can be', (t) => {
  const [, said] = /A body has at most (\d+) MiB/.exec(page) ?? [];
  const { length } = webhookBody({ ...row, ...largest() });
  t.ok(length <= Number(said) * 2 ** 20, `${length} bytes`);
  t.match(recipes['receiver.go'], `MaxBytesReader(w, r.Body, ${said}<<20)`);
  t.end();
});

t.test('the page has no recipe that these tests do not run', async (t) => {
  t.same(Object.keys(recipes).toSorted(), ['receiver.go', 'receiver.mjs', 'receiver.py']);
  t.equal(page.match(/```(js|python|go)\n/g)?.length, 3);
});

t.test('the body that the page shows has the fields of a real one', async (t) => {
  const shown = JSON.parse(/```json\n(.*?)```/s.exec(page)?.[1] ?? '');
  const real = JSON.parse(Buffer.from(webhookBody(row)).toString());
  t.same(Object.keys(shown), Object.keys(real));
  t.same(Object.keys(shown.data), Object.keys(real.data));
});
