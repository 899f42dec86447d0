/**
 * The recipe of OPERATING.md, "Restore", as it is printed there: after a loss, where the log needs a new name, and for a move to
 * another server, where it keeps its own. Each with a witness, which knows what was signed after the backup.
 */
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import { keyText, parseKey, type VerifierKey } from '../../src/proof/note.ts';
import { ownServer } from '../support/database.ts';
import { sectionLines } from '../support/documents.ts';
import { aWitness } from '../witness/a_witness.ts';
import { runProgram } from './command_line.ts';

const [restoring, proving, naming, starting] = sectionLines('OPERATING.md', 'Restore');
const key = (byte: number) => Buffer.alloc(32, byte).toString('base64');

/** A log with a backup, in a database `runledger` of its own server. */
async function backedUp(t: Test) {
  const server = await ownServer(t);
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-restore-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  await symlink(resolve('runledger'), join(cwd, 'runledger'));
  await symlink(resolve('sql'), join(cwd, 'sql'));
  const env: Record<string, string> = {
    DATABASE_URL: server.url,
    RUNLEDGER_SEAL_KEY: key(7),
    RUNLEDGER_LANGUAGES: 'python',
  };
  const sh = (line: string) => runProgram('sh', ['-c', line], { cwd, env });
  const well = async (line: string): Promise<string> => {
    const { status, stdout, stderr } = await sh(line);
    t.equal(status, 0, `${line}: ${stdout}${stderr}`);
    return stdout;
  };
  /** psql is not on every machine: the same statement, or file, as the same user in the same database. */
  const psql = async (line: string) => {
    const [, database, option, what] =
      /^psql 'postgres:\/\/postgres@host\/(\w+)' -([cf]) (?:'(.*)'|.*)$/.exec(line)!;
    const url = new URL(server.superuser_url);
    url.pathname = `/${database}`;
    const db = connect(url.href, { name: 'test', max: 1 });
    const file = line.split(' ').at(-1)!;
    await db.unsafe(option === 'c' ? what! : await readFile(file, 'utf8')).simple();
    await db.end();
  };
  const follow = async (lines: readonly string[]) => {
    let printed = '';
    for (const line of lines)
      if (line.startsWith('psql ')) await psql(line);
      else printed += await well(line);
    return printed;
  };

  const logKeys = async () => (await well('./runledger policy')).match(/^log (\S+)$/gm)!;
  const own = parseKey((await logKeys())[0]!.slice(4));
  let witness = await aWitness(t, [own]);
  env['RUNLEDGER_WITNESSES'] = `${keyText(witness.key)}=${witness.url}`;
  await well('./runledger keys create --account early');
  return {
    cwd,
    env,
    sh,
    well,
    follow,
    own,
    /** Its operator adds logs, and restarts it. */
    async watches(logs: readonly VerifierKey[]) {
      await witness.stop();
      witness = await aWitness(t, logs, {
        dir: witness.dir,
        port: Number(new URL(witness.url).port),
      });
    },
  };
}

t.test('the section has these blocks', async (t) => {
  t.equal(sectionLines('OPERATING.md', 'Restore').length, 4);
  t.equal(restoring!.filter((line) => line.startsWith('psql ')).length, 3);
});

t.test('after a loss: the log goes on under a new name', async (t) => {
  const { cwd, env, sh, well, follow, own, watches } = await backedUp(t);
  await well('./runledger seal');
  await well('./runledger policy > policy.txt');
  await well('./runledger backup runledger.backup');
  await well('./runledger keys create --account late');
  await well('./runledger seal');

  await follow(restoring!);
  t.match(await follow(proving!), /proven up to leaf/);
  t.notMatch(await well('./runledger keys list'), /late/);
  await well('./runledger keys create --account after');
  t.match(await sh('./runledger seal'), { status: 1, stderr: /the log has forked/ });

  const before = (await readFile(join(cwd, 'policy.txt'), 'utf8')).match(/^log \S+$/gm)!;
  env['RUNLEDGER_LOG_ORIGIN'] = 'runledger.example.org/2';
  env['RUNLEDGER_SEAL_KEY'] = key(8);
  env['RUNLEDGER_SEAL_KEYS_BEFORE'] = before.map((line) => line.slice(4)).join(' ');
  const printed = await follow(naming!);
  const [, removal] = /^(repaired \S+ \d+)$/m.exec(printed)!;
  await writeFile(join(cwd, 'removals.txt'), `${removal}\n`);
  const policy = (await readFile(join(cwd, 'policy-2.txt'), 'utf8')).match(/^log \S+$/gm)!;
  const keys = policy.map((line) => parseKey(line.slice(4)));
  t.strictSame(
    keys.map(({ name }) => name),
    ['runledger.example.org/2', own.name],
  );
  await watches(keys);
  await follow(starting!.filter((line) => !line.endsWith(' doctor')));
  t.match(
    await well('./runledger verify --policy policy-2.txt --removals removals.txt'),
    /proven up to leaf \d+ .* of runledger.example.org\/2, cosigned by witness.test\)\n$/,
  );
  t.match(await sh('./runledger verify --policy policy-2.txt'), { status: 1 }, 'without the line');
  const { stdout } = await sh('./runledger doctor');
  t.match(stdout, /^ok +sealing/m);
  t.match(stdout, /^ok +auditor login +bounded/m);
});

t.test('a move: the log keeps its name, and its witness sees nothing', async (t) => {
  const { well, follow } = await backedUp(t);
  await well('./runledger policy > policy.txt');
  await well('./runledger seal');
  await well('./runledger backup runledger.backup');
  await follow(restoring!);
  await follow(proving!);
  await well('./runledger keys create --account after');
  await follow(starting!.filter((line) => !line.endsWith(' doctor')));
  t.match(await well('./runledger verify --policy policy.txt'), /cosigned by witness.test\)\n$/);
});
