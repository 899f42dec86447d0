/** A database whose definitions the server has read from their printed text, as every restored dump has them. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { notChecked } from '../support/report.ts';
import { seal } from './seal_now.ts';
import { alone } from './verified.ts';
import { submission, world } from './world.ts';

const run = promisify(execFile);

aloneOnItsServer();

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  for (let n = 0; n < 3; n++) await submit({ secret_digest: digest, submission: submission({}) });
  await seal(w.web);
  const root = w.connect(w.database.superuser_url, 1);
  await root
    .unsafe('set search_path = pg_catalog, pg_temp; set check_function_bodies = off')
    .simple();
  return { w, root };
}

/** Replaces each by what the statement makes of it. */
async function makeAgain(root: Db, statements: string): Promise<number> {
  const rows = await root.unsafe<{ statement: string }[]>(statements);
  for (const { statement } of rows) await root.unsafe(statement).simple();
  return rows.length;
}

const OURS = `c.relnamespace = 'runledger'::regnamespace`;

t.test('definitions that are made again from their printed text', async (t) => {
  const { w, root } = await scene(t);
  const of = [
    `select format('create or replace view %s as %s', c.oid::regclass, pg_get_viewdef(c.oid)) as statement
     from pg_class c where ${OURS} and c.relkind = 'v'`,
    `select format('alter table %s drop constraint %I; alter table %1$s add constraint %2$I %s', c.oid::regclass, o.conname,
       pg_get_constraintdef(o.oid)) as statement
     from pg_constraint o join pg_class c on c.oid = o.conrelid where ${OURS} and o.contype = 'c' and o.conparentid = 0 and o.conislocal`,
    `select format('alter table %s alter column %I set default %s', c.oid::regclass, a.attname, pg_get_expr(d.adbin, c.oid)) as statement
     from pg_attrdef d join pg_class c on c.oid = d.adrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
     where ${OURS} and a.attgenerated = ''`,
    `select format('drop index %s; %s', i.indexrelid::regclass, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ')) as statement
     from pg_index i join pg_class c on c.oid = i.indrelid
     where ${OURS} and not c.relispartition and (i.indexprs is not null or i.indpred is not null)`,
    `select pg_get_functiondef(p.oid) as statement from pg_proc p
     where p.pronamespace = 'runledger'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype`,
  ];
  for (const each of of) t.ok((await makeAgain(root, each)) > 0);
  t.same((await verify(w.db, { policy: alone })).problems, []);
});

t.test('a restored table numbers its columns again, so none was ever dropped', async (t) => {
  const { root } = await scene(t);
  t.same(
    await root.unsafe(
      `select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid where ${OURS} and a.attisdropped`,
    ),
    [],
  );
});

t.test('a dump that was restored', async (t) => {
  const { w, root } = await scene(t);
  const [server] = await root<{ major: number }[]>`
    select current_setting('server_version_num')::integer / 10000 as major`;
  const dump = await majorOfDump();
  if (dump < server!.major) {
    const found = dump > 0 ? `that of PostgreSQL ${dump}` : 'none';
    const reason = `no pg_dump of PostgreSQL ${server!.major} on this machine, but ${found}`;
    t.pass('a dump', { skip: notChecked(reason) });
    return;
  }
  const name = `${w.database.name}_restored`;
  const at = (url: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  await root.unsafe(`create database ${name} template template0 owner runledger_owner`);
  t.teardown(() => root.unsafe(`drop database ${name} with (force)`));
  const { stdout } = await run('pg_dump', [w.database.superuser_url], { maxBuffer: 2 ** 28 });
  const psql = run('psql', ['-q', '-v', 'ON_ERROR_STOP=1', at(w.database.superuser_url)]);
  psql.child.stdin!.end(stdout);
  await psql;
  const db = connect(at(w.database.url), { name: 'verify', max: 1 });
  t.teardown(() => db.end());
  t.same((await verify(db, { policy: alone })).problems, []);
});

/** 0 where there is none. */
async function majorOfDump(): Promise<number> {
  const { stdout } = await run('pg_dump', ['--version']).catch(() => ({ stdout: '' }));
  return Number(/\) (\d+)/.exec(stdout)?.[1] ?? 0);
}
