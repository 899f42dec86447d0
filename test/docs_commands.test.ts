/**
 * The commands in the documents work as they are printed. Every line of a shell block is run here, in the order of its
 * document, or is listed with the reason why it is not.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { runProgram } from './cli/command_line.ts';
import { startService } from './http/support/service.ts';
import { documents, shellLines } from './support/documents.ts';
import { linkedCopy } from './support/linked_copy.ts';
import { descendants, survivors } from './support/processes.ts';

/** Lines that are not run, and why. Targets of make are still expanded (`make -n`). */
const NOT_RUN: readonly (readonly [RegExp, string])[] = [
  [/^git clone /, 'names no address'],
  [/^umask /, 'is for the line after it'],
  [
    /^curl /,
    'test/cli/curl_examples.test.ts sends the calls of README.md; the drill systemd that of DEPLOYING.md',
  ],
  [/ \.\/runledger worker$/, 'test/deploy/procfile.test.ts starts a worker'],
  [
    /^psql .*\/administrator\/|^psql .* -c '|^\.\/runledger (restore|repair|verify --offline|policy > policy-2)/,
    'test/cli/restore_document.test.ts runs the recipe',
  ],
  [/^\.\/runledger upgrade-database/, 'test/cli/upgrade_database.test.ts runs it'],
  [
    /^psql .* role replicator |^pg_basebackup /,
    'test/cli/replica_document.test.ts runs the recipe',
  ],
  [
    /^apt-get install (etcd-server|haproxy)|^rm -rf .*etcd|^sed -i .*etcd|^patronictl |^install .*deploy.ha/,
    'the drill failover runs them, or does what systemd does',
  ],
  [/^psql /, 'test/sql/audit.test.ts runs the queries'],
  [
    /^\.\/runledger (judge|problem check|rerun --test-set) /,
    'test/cli/judging_document.test.ts runs them',
  ],
  [/ witness .*--logs/, 'test/witness/command.test.ts starts a witness'],
  [
    /^(install|cp -n|usermod|systemctl|systemd-\w+|apt-get install uidmap|runledger-owner)\b/,
    'the drill systemd runs those of its first five blocks; those of the other units and services are run by nothing',
  ],
  [/^nginx -t/, 'test/deploy/check_deploy.ts, and the drill nginx'],
  [/^journalctl /, 'run by nothing: it needs the unit of a witness'],
  [/^(podman|tar) |^deploy\/container\//, 'the drill container does the same'],
  [/^podman-compose /, 'needs an image of PostgreSQL from a registry'],
  [/^kubectl /, 'there is no cluster; test/deploy/check_deploy.ts, and the drill kubernetes'],
];
/** A command line whose outcome depends on the data or on the machine. */
const MAY_FAIL: readonly (readonly [RegExp, RegExp])[] = [
  [/ detach 2026-01/, /cannot be detached: the log has no partition of that month/],
  [/ doctor/, /^$/],
  [/ verify --head head-2026/, /head-2026.*no such file/],
  [/ verify .*--removals removals.txt/, /removals.txt: .*no such file/],
  // The bytes of what could be run were removed by the lines before it.
  [/ rerun /, /^nothing was compared: each submission was left out$/],
];
const ONE = 'test/metrics.test.ts';
const NPM_TEST = `npm test -- ${ONE}`;
const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');

for (const document of documents()) {
  const lines = shellLines(document).filter((line) => !NOT_RUN.some(([what]) => what.test(line)));
  const commands = lines.filter((line) => line.startsWith('./runledger'));
  const makes = lines.filter((line) => line.startsWith('make '));

  if (lines.length > 0)
    t.test(`${document.name}: every line is of a kind that is tested`, async (t) => {
      const known = [...commands, ...makes, NPM_TEST];
      t.strictSame(
        lines.filter((line) => !known.includes(line)),
        [],
      );
    });

  if (commands.length > 0)
    t.test(`${document.name}: the command lines`, async (t) => {
      const cwd = await mkdtemp(join(tmpdir(), 'runledger-docs-'));
      t.teardown(() => rm(cwd, { recursive: true }));
      await symlink(resolve('runledger'), join(cwd, 'runledger'));
      const service = await startService(t, { webs: 1, env: { RUNLEDGER_SEAL_KEY: SEAL_KEY } });
      const env: Record<string, string> = {
        DATABASE_URL: service.database.url,
        RUNLEDGER_SEAL_KEY: SEAL_KEY,
        RUNLEDGER_SERVER: service.webs[0]!.origin,
        RUNLEDGER_API_KEY: await service.key(),
      };
      const shell = (line: string) => {
        // doctor makes what is prepared of each language (doctor.test.ts has them all), and status wants a worker for each.
        const languages = / (doctor|status)\b/.test(line) ? { RUNLEDGER_LANGUAGES: 'python' } : {};
        return runProgram('sh', ['-c', line], { cwd, env: { ...env, ...languages } });
      };
      const made = await shell('./runledger keys create --account first --json');
      const { id } = JSON.parse(made.stdout) as { id: string };
      // What a customer has: a submission that has ended, and its record.
      const submission = (await service.submit(env['RUNLEDGER_API_KEY']!)).json.id as string;
      await service.worker.finish(submission);
      const record = { path: `/api/result/${submission}`, key: env['RUNLEDGER_API_KEY']! };
      await writeFile(join(cwd, 'record.json'), (await service.call(record)).text);
      for (const line of commands) {
        const named = / (receipt|--submission) ID/.test(line) ? submission : id;
        const { status, stderr } = await shell(line.replace(/\bID\b/, named));
        const excuse = MAY_FAIL.find(([what]) => what.test(line))?.[1];
        if (status !== 0 && excuse) t.match(stderr.trim(), excuse, line);
        else t.equal(status, 0, `${line}: ${stderr}`);
      }
    });

  if (makes.length > 0)
    t.test(`${document.name}: the targets of make`, async (t) => {
      for (const line of makes) {
        const dry = line
          .replace(/^make /, 'make -n ')
          .replace(/^npm test/, 'npm_config_dry=1 true');
        const { status, stderr } = await runProgram('sh', ['-c', dry], { cwd: resolve('.') });
        t.equal(status, 0, `${line}: ${stderr}`);
      }
    });
}

t.test('make test and npm test run one file', async (t) => {
  const cwd = await linkedCopy(t);
  for (const line of [`make test FILE=${ONE}`, NPM_TEST]) {
    const { status, stdout, stderr } = await runProgram('sh', ['-c', line], { cwd });
    t.equal(status, 0, stderr);
    t.match(stdout, /^ok {6}test\/metrics\.test\.ts {2}.* s\n[1-9]\d* passed, 0 failed\n$/m, line);
  }
});

t.test('make test says when a file does not exist', async (t) => {
  const cwd = await linkedCopy(t);
  const { status, stderr } = await runProgram('make', ['test', 'FILE=test/none.test.ts'], { cwd });
  t.not(status, 0);
  t.match(stderr, /test\/none\.test\.ts: no such test file or folder/);
});

t.test('make watch runs one file until it is stopped', async (t) => {
  const cwd = await linkedCopy(t);
  const watch = spawn('make', ['watch', `FILE=${ONE}`], {
    cwd,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  const lines = createInterface({ input: watch.stdout });
  const seen: string[] = [];
  for await (const line of lines) {
    seen.push(line);
    if (/^# time=/.test(line)) break;
  }
  t.ok(
    seen.some((line) => /^ok 1 /.test(line)),
    seen.join('\n'),
  );
  const started = descendants(watch.pid!);
  process.kill(-watch.pid!, 'SIGINT');
  await once(watch, 'exit');
  t.strictSame(await survivors(started), []);
});

t.test('npm start starts the service', async (t) => {
  const { stdout } = await runProgram('npm', ['start', '--', '--help'], { cwd: resolve('.') });
  t.match(stdout, /usage: \.\/runledger serve/);
});
