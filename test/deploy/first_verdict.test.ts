/**
 * A first try on each kind of machine: `serve` starts, and the first program of each language gets its verdict, or `serve`
 * says in one line why not. Where the isolation is degraded, the start, the health answer and every execution's evidence
 * say so. The seconds are printed and decide nothing.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import { BY_NAME, ON_BY_DEFAULT } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { descendants, survivors } from '../support/processes.ts';
import { cannotImitate, ENVIRONMENTS, type Environment, folderFor, ROOT } from './environments.ts';

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** An emulated machine takes minutes for what takes seconds here. */
const TIMEOUT_MS = 1_800_000;
t.setTimeout(TIMEOUT_MS);
const { toolchains } = await findToolchains({ path: PATH });
const LANGUAGES = ON_BY_DEFAULT.filter((name) => toolchains.has(name));
/** An emulated machine takes 25 times as long, and a busy one longer than the usual limits. */
const SLOWNESS = {
  RUNLEDGER_LIMITS_CPU: '5min',
  RUNLEDGER_LIMITS_CPU_MAX: '5min',
  RUNLEDGER_LIMITS_WALL: '10min',
  RUNLEDGER_LIMITS_WALL_MAX: '10min',
  RUNLEDGER_LIMITS_COMPILE_CPU: '5min',
  RUNLEDGER_LIMITS_COMPILE_WALL: '10min',
};
/** Names of environments, to run only these. */
const ONLY = new RegExp(process.env['RUNLEDGER_TEST_ENVIRONMENTS'] ?? '');
const DEGRADED = /^degraded isolation, for your own code only: (.+)$/;

for (const environment of ENVIRONMENTS.filter(({ name }) => ONLY.test(name))) {
  const skip = cannotImitate(environment) ?? false;
  t.test(environment.name, { skip, timeout: TIMEOUT_MS }, async (t) => {
    const folder = await folderFor(t, environment);
    const begun = performance.now();
    const seconds = () => `${((performance.now() - begun) / 1_000).toFixed(1)} s`;
    const serving = serve(t, environment, folder);
    const { address, key } = await serving.introduced;
    t.comment(`${environment.name}: the key after ${seconds()}`);
    const call = async (path: string, body?: object) => {
      const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
      const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
      return (await fetch(`${address}${path}`, { ...init, headers })).json();
    };
    for (const language of LANGUAGES) {
      const code = BY_NAME.get(language)!.hello;
      const given = (await call('/api/submit', { language, code })) as { id: string };
      let record = { status: 'pending' };
      while (!['completed', 'error'].includes(record.status))
        record = (await call(`/api/result/${given.id}?wait=true`)) as typeof record;
      t.match(record, { status: 'completed', verdict: 'AC', stdout: /^42\s*$/ }, language);
      t.comment(`${environment.name}: ${language} after ${seconds()}`);
    }
    const { isolation } = (await call('/api/health')) as { isolation: Health };
    const [missing] = serving.lines.map((line) => DEGRADED.exec(line)?.[1]).filter(Boolean);
    t.comment(`${environment.name}: ${isolation.kinds.join()} ${missing ?? ''}`);
    if (environment.isolation !== null)
      t.equal(isolation.degraded, environment.isolation === 'degraded');
    t.same(isolation.missing, missing === undefined ? [] : [missing]);
    const evidence = await evidenceOf(folder);
    t.equal(evidence.length, LANGUAGES.length);
    for (const each of evidence)
      t.match(
        each,
        missing ? { isolation: 'rlimits', degraded: true, missing } : { degraded: false },
      );

    const started = descendants(serving.process.pid!);
    serving.process.kill('SIGTERM');
    await once(serving.process, 'exit');
    t.same(await survivors(started), [], 'nothing is left running');
  });
}

type Health = { kinds: string[]; degraded: boolean; missing: string[] };

function serve(t: Test, { inside }: Environment, folder: string) {
  const [program, ...args] = [...inside, join(ROOT, 'runledger'), 'serve'];
  const child = spawn(program!, args, {
    cwd: ROOT,
    env: {
      ...{ PATH, PORT: '0', RUNLEDGER_STATE_DIR: join(folder, 'state'), ...SLOWNESS },
      // Compiling the headers takes ten times as long as the one program that could use them.
      RUNLEDGER_PRECOMPILED_HEADERS: 'off',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let ended = false;
  t.teardown(() => {
    ended = true;
    child.kill('SIGKILL');
  });
  const lines: string[] = [];
  const introduced = new Promise<{ address: string; key: string }>((resolve, reject) => {
    child.once('exit', () => reject(new Error(lines.join('\n'))));
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        if (!ended && !/^(key|try) /.test(line)) t.comment(line);
        const value = (name: string) => lines.find((each) => each.startsWith(name))?.slice(9);
        const [address, key, example] = ['address', 'key', 'try'].map(value);
        if (address && key && example) resolve({ address, key });
      });
  });
  return { process: child, lines, introduced };
}

/** Of every execution in the log, as its owner reads it. */
async function evidenceOf(folder: string): Promise<object[]> {
  const { role_passwords } = JSON.parse(readFileSync(join(folder, 'state/secrets.json'), 'utf8'));
  const port = readFileSync(join(folder, 'state/postgres.port'), 'utf8').trim();
  const url = `postgres://runledger_owner:${role_passwords.owner}@127.0.0.1:${port}/runledger`;
  const db = connect(url, { name: 'test', max: 1 });
  const rows = await db<{ evidence: object }[]>`
    select facts -> 'evidence' as evidence from runledger.events where type = 'submission.completed'`;
  await db.end();
  return rows.map(({ evidence }) => evidence);
}
