/** The recipe of OPERATING.md, "A replica for reads", as it is printed there. */
// needs: basebackup
import { appendFile, chmod, chown, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { type Server, startServer } from '../../src/local/postgres.ts';
import { findBasebackup } from '../support/basebackup.ts';
import { sectionLines } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from './command_line.ts';

const SECTION = 'A replica for reads';
const programs = { dir: findBasebackup()!, locale: ['--locale=C'] };

t.test('the recipe makes a replica that follows the primary', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-basebackup-'));
  // The server's user works below it.
  await chmod(folder, 0o711);
  const servers: Server[] = [];
  t.teardown(async () => {
    for (const server of servers) await server.stop();
    await rm(folder, { recursive: true });
  });
  const start = async (data_dir: string) => {
    const options = { password: 'secret', port: null, uid: null, programs, durable: false };
    const server = await startServer({ ...options, data_dir, settings: {} });
    servers.push(server);
    const url = `postgres://postgres:secret@127.0.0.1:${server.port}/postgres`;
    const db = connect(url, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    return { db, server };
  };
  const first = join(folder, 'primary');
  const primary = await start(first);
  const [[psql], [copy], ...others] = sectionLines('OPERATING.md', SECTION) as [[string], [string]];
  t.equal(others.length, 0);

  // psql is not on every machine: the same statement, and what `\\password` sends.
  const [, create, ask] = / -c '(.*)' -c '(.*)'$/.exec(psql)!;
  t.equal(ask, '\\password replicator');
  await primary.db.unsafe(create!);
  await primary.db`alter role replicator password 'typed'`;
  const [, access] = /`(host replication [^`]*)`/.exec(await readFile('OPERATING.md', 'utf8'))!;
  await appendFile(
    join(first, 'pg_hba.conf'),
    `${access!.replace('10.0.0.0/24', '127.0.0.1/32')}\n`,
  );
  await primary.db`select pg_reload_conf()`;

  const second = join(folder, 'replica');
  const line = copy
    .replace('host=primary', `host=127.0.0.1 port=${primary.server.port}`)
    .replace('/var/lib/postgresql/17/main', second);
  // There is nobody to type it.
  const env = { PATH: `${programs.dir}/bin:${process.env['PATH']}`, PGPASSWORD: 'typed' };
  const { status, stderr } = await runProgram('sh', ['-c', line], { cwd: folder, env });
  t.equal(status, 0, stderr);
  await giveTo((await stat(first)).uid, second);
  const replica = await start(second);
  await primary.db`create table public.written_later (n integer)`;
  t.ok(await eventually(() => has(replica.db, 'written_later')));
  const [row] = await replica.db`select pg_is_in_recovery() as in_recovery`;
  t.equal(row!['in_recovery'], true);
});

async function has(db: Db, table: string): Promise<boolean> {
  const [row] = await db`select to_regclass(${`public.${table}`}) is not null as there`;
  return row!['there'];
}

/** What root copied becomes the property of the server's user. */
async function giveTo(uid: number, dir: string): Promise<void> {
  if (process.getuid!() !== 0) return;
  for (const entry of await readdir(dir, { recursive: true, withFileTypes: true }))
    await chown(join(entry.parentPath, entry.name), uid, uid);
  await chown(dir, uid, uid);
}
