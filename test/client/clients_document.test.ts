/** The programs in CLIENTS.md run as they are printed, and print what their comments say. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { runProgram } from '../cli/command_line.ts';
import { startService } from '../http/support/service.ts';
import { archiveOf } from '../judging/packages.ts';
import { type Import, importsOf } from '../support/imports.ts';
import { endingAll } from './ending.ts';

const text = readFileSync('CLIENTS.md', 'utf8');
const programs = [...text.matchAll(/^```(python|ts)\n(.*?)^```$/gms)].map(
  ([, language, source]) => ({ language: language!, source: source! }),
);
const PACKAGE = archiveOf({
  'problem.yaml': 'problem_format_version: 2025-09\nname: Sums\nuuid: 0\n',
  'data/secret/1.in': '1 2\n',
  'data/secret/1.ans': '3\n',
});
const COMMANDS: Record<string, string[]> = {
  python: ['python3', '-B', '-c'],
  ts: [process.execPath, '--input-type=module-typescript', '-e'],
};

t.test('the files that it names are all of the client in TypeScript', async (t) => {
  const [, paragraph = ''] = text.match(/^(To use the client elsewhere, .*?)\n\n/ms) ?? [];
  const named = [...paragraph.matchAll(/`(src\/[a-z_/]+\.ts)`/g)].map(([, path]) => path!);
  const runs = reachedFrom('src/client/client.ts', ({ typeOnly }) => !typeOnly);
  t.same(
    named.toSorted(),
    runs.filter((one) => !one.startsWith('node:')),
  );
  const folders = [...paragraph.matchAll(/`(src\/[a-z]+)`/g)].map(([, path]) => path!);
  const types = reachedFrom('src/client/client.ts', () => true);
  const beside = types.filter((one) => !folders.some((folder) => one.startsWith(`${folder}/`)));
  const packages = beside.filter((one) => !one.startsWith('node:'));
  t.same(packages, ['valibot']);
  t.match(paragraph, /`valibot`/);

  const cwd = await mkdtemp(join(tmpdir(), 'runledger-copied-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  for (const path of named) {
    await mkdir(dirname(join(cwd, path)), { recursive: true });
    await copyFile(path, join(cwd, path));
  }
  const program = `
    import { createClient } from './src/client/client.ts';
    const client = createClient({ server: 'http://127.0.0.1:1', api_key: 'x', attempts: 1 });
    await client.languages().catch((error) => console.log(error.message));`;
  const [command, ...options] = COMMANDS['ts']!;
  const ran = await runProgram(command!, [...options, program], { cwd });
  t.match(ran, { status: 0, stdout: /^cannot reach http/ });
});

/** Files and packages, with the file itself. */
function reachedFrom(file: string, counts: (one: Import) => boolean): string[] {
  const reached = new Set([file]);
  for (const one of reached) {
    if (!one.endsWith('.ts')) continue;
    for (const each of importsOf(one)) if (counts(each)) reached.add(each.to);
  }
  return [...reached].sort();
}

t.test('the programs of CLIENTS.md', async (t) => {
  t.same(
    programs.map(({ language }) => language),
    ['python', 'python', 'python', 'python', 'ts'],
  );
  const service = await startService(t, { webs: 1 });
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-clients-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  await writeFile(join(cwd, 'problem.zip'), PACKAGE);
  await symlink(resolve('src'), join(cwd, 'src'));
  const env = {
    PATH: process.env['PATH'],
    PYTHONPATH: resolve('src/client'),
    RUNLEDGER_SERVER: service.webs[0]!.origin,
    RUNLEDGER_API_KEY: await service.key(),
  };
  for (const { language, source } of programs) {
    const [command, ...options] = COMMANDS[language]!;
    if (spawnSync(command!, ['--version']).error) {
      t.pass(`a program in ${language}`, { skip: `no ${command} on this machine` });
      continue;
    }
    const running = runProgram(command!, [...options, source], { cwd, env });
    const { status, stdout, stderr } = await endingAll(service, running);
    t.equal(status, 0, stderr);
    const says = [...source.matchAll(/(?:#|\/\/) prints: (.*)$/gm)].map(([, line]) => line);
    t.ok(says.length > 0, source);
    t.same(stdout.trim().split('\n'), says, source);
  }
});
