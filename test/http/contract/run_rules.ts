/** Rules that only a real worker can show: languages, verdicts, measures, the command line's `run`. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { JUDGING_EXAMPLES } from '../../../src/http/api/judging_examples.ts';
import { archiveOf } from '../../judging/packages.ts';
import type { Reply } from '../support/call.ts';
import { keyOf } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import { NotRun, type Stage } from './stage.ts';

const { seed, contract } = chapter('running');
const MAIN = join(import.meta.dirname, '../../../src/cli/main.js');

type Body = Record<string, unknown> & { code: string };

async function ran(stage: Stage, body: Body): Promise<Reply> {
  const service = await stage.real();
  const key = await keyOf(service);
  const whole = { language: 'python', ...body };
  const { json } = await service.call({ path: '/api/languages', key });
  const canonical = ({ 'c++': 'cpp', py: 'python' } as Record<string, string>)[whole.language];
  const language = canonical ?? whole.language;
  if (!json.includes(language)) throw new NotRun(`no ${language} on this machine`);
  let reply = await service.submit(key, whole, { path: '/api/submit?wait=true' });
  // A busy machine may need longer than one wait.
  while (
    reply.status === 408 ||
    reply.json.status === 'pending' ||
    reply.json.status === 'running'
  ) {
    reply = await service.call({ path: `/api/result/${reply.json.id}?wait=true`, key });
  }
  equal(reply.status, 200, reply.text);
  return reply;
}

async function judged(stage: Stage, verdict: string, body: Body): Promise<Reply['json']> {
  const { json, text } = await ran(stage, body);
  equal(json.verdict, verdict, text);
  equal(json.status, 'completed');
  return json;
}

const CPP_HELLO = '#include <cstdio>\nint main() { puts("hello"); }';
const JAVA_HELLO =
  'class Hello { public static void main(String[] a) { System.out.println("hello"); } }';

export const runRules: Rule[] = [
  contract('every example of a judged submission is right: AC', async (s) => {
    for (const [name, { value, 'x-answer': answer }] of Object.entries(JUDGING_EXAMPLES)) {
      if (answer !== '202') continue;
      const { json, text } = await ran(s, value as Body);
      equal(json.verdict, 'AC', `${name}: ${text}`);
      for (const test of json.tests ?? []) equal(test.verdict, 'AC', name);
    }
  }),
  contract('what a program prints comes while it runs', async (s) => {
    const service = await s.real();
    const key = await keyOf(service);
    const code = "import time\nprint('now', flush=True)\nwhile True: time.sleep(1)";
    const { json } = await service.submit(key, { language: 'python', code });
    const following = await fetch(`${service.webs[0]!.origin}/api/result/${json.id}/events`, {
      headers: { 'X-API-Key': key },
    });
    let text = '';
    for await (const chunk of following.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (!text.includes('event: output')) continue;
      match(text, /"stream":"stdout","at":0,"text":"now\\n"/);
      await service.call({ path: `/api/submissions/${json.id}`, key, method: 'DELETE' });
    }
    match(text, /event: output\n.*event: cancelled/s);
  }),
  contract('each test has its verdict and its output, after one compile', async (s) => {
    const tests = [
      { name: 'a', stdin: '1', expected_output: '1' },
      { stdin: '2', expected_output: '3' },
      { stdin: '4', expected_output: '4' },
    ];
    const body = { code: 'print(input())', tests };
    const json = await judged(s, 'WA', { ...body, stop: 'never' });
    deepEqual(
      json.tests.map((test: { name: string; verdict: string; stdout: string }) => [
        test.name,
        test.verdict,
        test.stdout,
      ]),
      [
        ['a', 'AC', '1\n'],
        ['2', 'WA', '2\n'],
        ['3', 'AC', '4\n'],
      ],
    );
    equal(json.stdout, '2\n', 'the top has the first test that is not AC');
    const first = await judged(s, 'WA', body);
    equal(first.tests[2].verdict, null, 'which is the last by default');
  }),
  contract('files that a program leaves are in the record', async (s) => {
    const code = 'open("a.txt", "w").write("x")\nopen("b.bin", "w").write("y")';
    const { files } = await judged(s, 'AC', { code, outputs: ['*.txt'] });
    deepEqual(
      files.map((file: { path: string; content_base64: string }) => [
        file.path,
        file.content_base64,
      ]),
      [['a.txt', 'eA==']],
    );
  }),
  contract('a stored set judges as tests of the request do', async (s) => {
    const service = await s.real();
    const key = await keyOf(service);
    const archive = archiveOf({ '1.in': '1', '1.ans': '1', '2.in': '2', '2.ans': '2' });
    const headers = { 'content-type': 'application/zip' };
    const path = '/api/test-sets';
    const { json } = await service.call({ method: 'POST', path, key, body: archive, headers });
    const record = await judged(s, 'AC', { code: 'print(input())', test_set: json.id });
    equal(record.tests.length, 2);
    equal((await judged(s, 'WA', { code: 'print(1)', test_set: json.id })).tests[1].verdict, 'WA');
    const first = await judged(s, 'WA', { code: 'print(2)', test_set: json.id });
    equal(first.tests[1].verdict, null);
  }),
  seed('python runs, with standard input', async (s) => {
    const json = await judged(s, 'AC', {
      code: 'print(sum(map(int, input().split())))',
      stdin: '2 3\n',
    });
    equal(json.stdout, '5\n');
    equal(json.exit_code, 0);
    equal(json.compile, null);
  }),
  seed('cpp is compiled and runs', async (s) => {
    const json = await judged(s, 'AC', { language: 'c++', code: CPP_HELLO });
    equal(json.stdout, 'hello\n');
    equal(json.compile.exit_code, 0);
  }),
  seed('java is compiled and runs', async (s) => {
    equal((await judged(s, 'AC', { language: 'java', code: JAVA_HELLO })).stdout, 'hello\n');
  }),
  seed('a successful run with correct output has the verdict AC', async (s) => {
    await judged(s, 'AC', { code: 'print(42)', expected_output: '42\n' });
  }),
  contract('WA: exit code 0, and the output is not the expected one', async (s) => {
    const json = await judged(s, 'WA', { code: 'print(41)', expected_output: '42\n' });
    equal(json.exit_code, 0);
  }),
  contract(
    'expected_output ignores white space at the ends of lines and of the text',
    async (s) => {
      await judged(s, 'AC', { code: 'print("a  \\nb\\t\\n\\n")', expected_output: 'a\nb' });
      await judged(s, 'WA', { code: 'print(" a")', expected_output: 'a' });
    },
  ),
  contract('compare: exact does not', async (s) => {
    await judged(s, 'WA', { code: 'print("a")', expected_output: 'a', compare: 'exact' });
    await judged(s, 'AC', { code: 'print("a")', expected_output: 'a\n', compare: 'exact' });
  }),
  contract('RE: the exit code is not 0', async (s) => {
    const json = await judged(s, 'RE', { code: 'import sys; print("x"); sys.exit(3)' });
    equal(json.exit_code, 3);
    equal(json.stdout, 'x\n');
    match((await judged(s, 'RE', { code: '1 / 0' })).stderr, /ZeroDivisionError/);
  }),
  contract(
    'SIG: ended by a signal that the service did not send; exit_code is 128 + N',
    async (s) => {
      const json = await judged(s, 'SIG', {
        code: 'import os, signal; os.kill(os.getpid(), signal.SIGSEGV)',
      });
      equal(json.signal, 'SIGSEGV');
      equal(json.exit_code, 139);
    },
  ),
  contract('TLE: over the CPU or the wall limit; exit_code 137, SIGKILL', async (s) => {
    for (const code of ['while True: pass', 'import time; time.sleep(20)']) {
      const json = await judged(s, 'TLE', { code, limits: { cpu_time: 0.5, wall_time: 1 } });
      equal(json.exit_code, 137);
      equal(json.signal, 'SIGKILL');
    }
  }),
  contract('MLE: killed by the kernel for the memory limit', async (s) => {
    await judged(s, 'MLE', {
      code: 'x = []\nwhile True: x.append(bytearray(1 << 20))',
      limits: { memory: 64 * 2 ** 20 },
    });
  }),
  contract('OLE: stdout over its limit; what fits is kept', async (s) => {
    const json = await judged(s, 'OLE', {
      code: 'import sys\nwhile True: sys.stdout.write("x" * 1000)',
      limits: { output: 5000 },
    });
    equal(json.stdout, 'x'.repeat(5000));
    equal(json.stdout_truncated, true);
  }),
  contract(
    'stderr over its limit is cut and flagged, and does not change the verdict',
    async (s) => {
      const json = await judged(s, 'AC', { code: 'import sys; sys.stderr.write("e" * 200000)' });
      equal(json.stderr.length, 65_536);
      equal(json.stderr_truncated, true);
    },
  ),
  contract(
    'CE: the compiler rejected the code; its messages are in stderr, and values of a run are null',
    async (s) => {
      const json = await judged(s, 'CE', { language: 'cpp', code: 'int main( {' });
      match(json.stderr, /error/);
      ok(json.compile.exit_code > 0);
      for (const name of ['exit_code', 'signal', 'cpu_time', 'wall_time', 'memory_peak']) {
        equal(json[name], null, name);
      }
    },
  ),
  contract('cpu_time includes every process, children too', async (s) => {
    const json = await judged(s, 'AC', {
      code: 'import os, time\nif os.fork() == 0:\n    t = time.process_time()\n    while time.process_time() - t < 0.3: pass\n    os._exit(0)\nos.wait()',
      limits: { wall_time: 30 },
    });
    ok(json.cpu_time >= 0.3, `${json.cpu_time} s`);
    ok(json.wall_time > 0 && json.memory_peak > 0);
  }),
  contract('args reach the program', async (s) => {
    const json = await judged(s, 'AC', {
      code: 'import sys; print(sys.argv[1:])',
      args: ['a b', 'é'],
    });
    equal(json.stdout, "['a b', 'é']\n");
  }),
  contract('stdin_base64 arrives byte for byte', async (s) => {
    const code = 'import sys; print(sys.stdin.buffer.read())';
    equal(
      (await judged(s, 'AC', { code, stdin_base64: 'AP/+Cg==' })).stdout,
      "b'\\x00\\xff\\xfe\\n'\n",
    );
  }),
  contract(
    'runledger run submits, waits, prints the output, and exits with the exit code of the program',
    async (s) => {
      const service = await s.real();
      const folder = mkdtempSync(join(tmpdir(), 'runledger-rule-'));
      const file = join(folder, 'three.py');
      writeFileSync(file, 'import sys\nprint("out")\nsys.exit(3)\n');
      const env = {
        PATH: process.env['PATH'],
        RUNLEDGER_SERVER: service.webs[0]!.origin,
        RUNLEDGER_API_KEY: await keyOf(service),
      };
      const ended = await new Promise<object>((resolve) => {
        const child = execFile(
          process.execPath,
          [MAIN, 'run', file],
          { env },
          (_, stdout, stderr) =>
            resolve({ code: child.exitCode, stdout, verdict: stderr.slice(0, 2) }),
        );
      });
      rmSync(folder, { recursive: true });
      deepEqual(ended, { code: 3, stdout: 'out\n', verdict: 'RE' });
    },
  ),
];
