/**
 * The curl calls of the documents, sent as they are printed to a service of the test's own, get the answers that the documents
 * show. Only the address, ids of earlier answers, and bodies that are cut ("...") are filled in.
 */
// needs: isolation, cpp, python
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { calls as operations } from '../../src/http/api/calls.ts';
import { startService } from '../http/support/service.ts';
import { archiveOf } from '../judging/packages.ts';
import { runProgram } from './command_line.ts';
import { judgingService } from './judging_service.ts';

type Example = {
  command: string;
  /** As a comment says. */
  status: number | null;
  /** The record that the document shows behind a call that waits. */
  record: Record<string, unknown> | null;
};

/** Every curl call in a block, with what the document says of its answer. */
function examplesOf(name: string): Example[] {
  const text = readFileSync(name, 'utf8');
  const blocks = [
    ...text.matchAll(/^```(?:sh)?\n(curl .*?)^```$(?:(?:(?!^```).)*^```json\n(.*?)^```$)?/gms),
  ];
  return blocks.flatMap(([, commands, json]) => {
    const calls = [
      ...commands!.matchAll(/^curl (?:'[^']*'|[^'\n]|\n(?! *#|curl ))+(?:\n# (\d{3}))?/gm),
    ];
    return calls.map(
      ([whole, status], n): Example => ({
        command: whole.replace(/\n#.*$/s, '').trim(),
        status: status === undefined ? null : Number(status),
        record:
          json && n === calls.length - 1 && whole.includes('wait=true') ? JSON.parse(json) : null,
      }),
    );
  });
}

const SUM = 'import sys\nprint(sum(map(int, sys.stdin.read().split())))';
const PACKAGE = archiveOf({
  'problem.yaml': 'problem_format_version: 2025-09\nname: Sums\nuuid: 0\n',
  'data/secret/1.in': '1 2\n',
  'data/secret/1.ans': '3\n',
});

const skip = spawnSync('curl', ['--version']).error ? 'no curl on this machine' : false;

/** Sends each call, and checks its answer. */
async function sendAll(t: Test, examples: readonly Example[], base: string, key: string) {
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-curl-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  await writeFile(join(cwd, 'problem.zip'), PACKAGE);
  await writeFile(join(cwd, 'pair.zip'), PACKAGE);
  let last: Record<string, unknown> = {};
  for (const { command, status, record } of examples) {
    const call = command
      .replaceAll('http://127.0.0.1:8080', base)
      .replace('/api/result/019d…', `/api/result/${last['id']}`)
      .replace('ids=019d…,019d…', `ids=${idsOf(last)}`)
      .replace(/"test_set": "[^"]*"/, `"test_set": "${last['id']}"`)
      .replace(
        '"language": "cpp", "code": "..."',
        `"language": "python", "code": ${JSON.stringify(SUM)}`,
      );
    const env = { PATH: process.env['PATH'], KEY: key, BASE: base };
    const sent = await runProgram('sh', ['-c', `${call} -w '\\n%{http_code}'`], { cwd, env });
    t.equal(sent.status, 0, `${command}: ${sent.stderr}`);
    const lines = sent.stdout.split('\n');
    const code = Number(lines.pop());
    last = JSON.parse(lines.join('\n'));
    t.ok(status === null ? [200, 201, 202].includes(code) : code === status, `${command}: ${code}`);
    if (record !== null) t.match(last, withoutMeasures(record), command);
  }
}

/** Of the answer to a batch. */
const idsOf = (answer: unknown) =>
  (Array.isArray(answer) ? answer : []).map(({ id }: { id: string }) => id);

/** What a document shows, without what differs from run to run, and without what it leaves out. */
function withoutMeasures(shown: unknown): unknown {
  if (Array.isArray(shown)) return shown.map(withoutMeasures);
  if (typeof shown !== 'object' || shown === null) return shown;
  const own = ['id', 'cpu_time', 'wall_time', 'memory_peak', '…'];
  return Object.fromEntries(
    Object.entries(shown)
      .filter(([name]) => !own.includes(name))
      .map(([name, value]) => [name, withoutMeasures(value)]),
  );
}

/** With the option that keeps the settings of this machine out. */
const SHELLS = { bash: '--norc', zsh: '-f' };

/** The calls of the page at `/`, in its order, with an id of an earlier answer for ID. */
async function sendPage(t: Test, [shell, plain]: [string, string], base: string, key: string) {
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-page-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  await writeFile(join(cwd, 'problem.zip'), PACKAGE);
  const page = await (await fetch(base)).text();
  const calls = [...page.matchAll(/<pre tabindex="0"><code>(curl .*?)<\/code><\/pre>/gs)].map(
    ([, call]) => call!.replaceAll('&quot;', '"').replaceAll('&gt;', '>').replaceAll('&lt;', '<'),
  );
  t.equal(calls.length, operations.length + 2, 'one for each operation, and two to start with');
  const ids = new Map<string, string>();
  for (const call of calls) {
    const [, kind = ''] = /\/api\/(result|submissions|submit|test-sets)/.exec(call) ?? [];
    const line = call.replace('/ID', `/${ids.get(kind)}`).replaceAll('&amp;', '&');
    const env = { PATH: process.env['PATH'], RUNLEDGER_API_KEY: key };
    const options = `-sS -w '\n%{http_code}'`;
    const sent = await runProgram(shell, [plain, '-c', `${line} ${options}`], { cwd, env });
    // A submission may have ended before it is cancelled.
    const good = line.includes('-X DELETE') ? /\n(20[04]|409)$/ : /\n20[0124]$/;
    t.match(sent.stdout, good, `${shell}: ${call}: ${sent.stdout} ${sent.stderr}`);
    t.equal(sent.stderr, '', call);
    const [, id] = /^\[?\{"id":"([0-9a-f-]{36})"/.exec(sent.stdout) ?? [];
    if (id !== undefined) ids.set(kind === 'submit' ? 'result' : kind, id);
  }
}

t.test('of README.md, JUDGING.md and the page', { skip }, async (t) => {
  const examples = ['README.md', 'JUDGING.md'].flatMap(examplesOf);
  t.equal(examples.length, 12);
  t.equal(examples.filter(({ record }) => record).length, 2);
  const { RUNLEDGER_SERVER, RUNLEDGER_API_KEY } = await judgingService(t, {
    RUNLEDGER_LANGUAGES: 'python,cpp',
    RUNLEDGER_PRECOMPILED_HEADERS: 'off',
  });
  await sendAll(t, examples, RUNLEDGER_SERVER!, RUNLEDGER_API_KEY!);
  const here = Object.entries(SHELLS).filter(([shell]) => !spawnSync(shell, ['--version']).error);
  // No machine needs both, so that one is not there is no test that could not run.
  t.comment(`the page in ${here.map(([shell]) => shell).join(' and ')}`);
  t.ok(here.length > 0, 'a shell is there');
  for (const shell of here) await sendPage(t, shell, RUNLEDGER_SERVER!, RUNLEDGER_API_KEY!);
});

t.test(
  'of WEBHOOKS.md, to a service that runs nothing, so that it sends nothing',
  { skip },
  async (t) => {
    const examples = examplesOf('WEBHOOKS.md');
    t.equal(examples.length, 1);
    const service = await startService(t, { webs: 1 });
    await sendAll(t, examples, service.webs[0]!.origin, await service.key());
  },
);
