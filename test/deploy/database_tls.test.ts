/** TLS to the database, as hosted databases require it: both database clients, against a real server. */
import { writeFileSync } from 'node:fs';
import { chmod, chown, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { databaseAddress } from '../../src/config/database_tls.ts';
import { loadConfig } from '../../src/config.ts';
import { connect, isAway } from '../../src/db.ts';
import { faultLine } from '../../src/fault.ts';
import { runledger } from '../cli/command_line.ts';
import { freshDatabase, type OwnServer, ownServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { issue, makeAuthority } from '../webhooks/certificate.ts';

const authority = makeAuthority();
const KEY = 'a'.repeat(64);

/** Like a hosted database: the certificate is signed by an unknown authority, and clear text is rejected. */
async function requireTls(server: OwnServer): Promise<void> {
  const { cert, key } = issue(authority, { hosts: ['127.0.0.1'] });
  const { uid } = await stat(server.data_dir);
  for (const [name, text] of [
    ['server.crt', cert],
    ['server.key', key],
  ] as const) {
    const file = join(server.data_dir, name);
    await writeFile(file, text, { mode: 0o600 });
    await chmod(file, 0o600);
    if (process.getuid!() === 0) await chown(file, uid, uid);
  }
  await writeFile(
    join(server.data_dir, 'pg_hba.conf'),
    // The superuser may connect in clear text: the check of every event's schema does, when the server ends.
    'hostssl all all 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 scram-sha-256\n',
  );
  const db = connect(server.superuser_url, { name: 'test', max: 1 });
  await db.unsafe("alter system set ssl = 'on'");
  await db.unsafe('select pg_reload_conf()');
  await db.end();
}

const tlsIn = async (url: string, env: Record<string, string> = {}) => {
  const db = connect(databaseAddress(loadConfig(env), url), { name: 'test', max: 1 });
  try {
    const [row] = await db`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
    return row?.['ssl'];
  } finally {
    await db.end();
  }
};

t.test('a database that requires TLS', async (t) => {
  const server = await ownServer(t);
  await requireTls(server);
  const { url } = server;
  const folder = t.testdir();
  const ca = join(folder, 'ca.pem');
  writeFileSync(ca, authority.pem);

  await t.rejects(tlsIn(url), { code: '28000' }, 'it rejects clear text');
  t.equal(await tlsIn(`${url}?sslmode=require`), true, 'encrypted, with any certificate');
  await t.rejects(tlsIn(`${url}?sslmode=verify-full`), /self.signed|unable to (get|verify)/);
  t.equal(
    await tlsIn(url, { RUNLEDGER_DATABASE_TLS: 'verify-full', RUNLEDGER_DATABASE_CA_FILE: ca }),
    true,
  );

  const stranger = join(folder, 'stranger.pem');
  writeFileSync(stranger, makeAuthority('a stranger').pem);
  const checked = { RUNLEDGER_DATABASE_TLS: 'require', RUNLEDGER_DATABASE_CA_FILE: stranger };
  await t.rejects(tlsIn(url, checked), Error, 'a configured authority is checked');

  const rooted = (file: string) => tlsIn(`${url}?sslmode=require&sslrootcert=${file}`);
  t.equal(await rooted(ca), true, 'an authority in the address');
  await t.rejects(rooted(stranger), Error, 'it is checked, too');
  await t.rejects(rooted('system'), /self.signed|unable to (get|verify)/);
  t.equal(await tlsIn(`${url}?sslrootcert=${ca}`), true, 'it asks for TLS');

  // Migrations also use graphile-worker's own client.
  const migrated = await runledger(['migrate'], { DATABASE_URL: `${url}?sslmode=require` });
  t.equal(migrated.status, 0, migrated.stderr);
  const { stdout } = await runledger(['doctor'], {
    DATABASE_URL: `${url}?sslmode=require`,
    RUNLEDGER_LANGUAGES: 'python',
  });
  t.match(stdout, /database .*, TLS, no pooler$/m);

  // After a change of the server, a service waits for TLS as for a database that is away.
  const superuser = connect(server.superuser_url, { name: 'test', max: 1 });
  await superuser.unsafe("alter system set ssl = 'off'");
  await superuser.unsafe('select pg_reload_conf()');
  await superuser.end();
  await until(async () => {
    const error: unknown = await tlsIn(`${url}?sslmode=require`).catch((thrown) => thrown);
    return isAway(error) && String(error).includes('it has no TLS now');
  });
});

t.test('a database without TLS', async (t) => {
  const { url } = await freshDatabase(t);
  const line =
    'the server has no TLS: use sslmode=disable in DATABASE_URL, or RUNLEDGER_DATABASE_TLS=disable, if the network is trusted';
  const env = { DATABASE_URL: `${url}?sslmode=require`, RUNLEDGER_LANGUAGES: 'python' };
  // All statements fail, and not only the first.
  const db = connect(databaseAddress(loadConfig({}), env.DATABASE_URL), { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 0 }));
  const failing = [1, 2, 3].map(() => db`select 1`.catch((error: unknown) => faultLine(error)));
  t.same(await Promise.all(failing), [line, line, line]);
  const migrated = await runledger(['migrate'], env);
  t.equal(migrated.status, 1);
  t.equal(migrated.stderr.trim(), line);
  for (const process of ['web', 'worker'] as const) {
    const { status, stdout } = await runledger([process], { ...env, RUNLEDGER_DIGEST_KEY: KEY });
    t.equal(status, 1, process);
    const { reason, remedy } = JSON.parse(stdout.trim().split('\n').at(-1)!);
    t.equal(`${reason}: ${remedy}`, line, process);
  }
  const { stdout } = await runledger(['doctor', '--only', 'service'], env);
  t.match(stdout, /database +the server has no TLS$/m);
  t.equal(await tlsIn(`${url}?sslmode=disable`), false);
  const without_effect = 'gssencmode=prefer&channel_binding=disable&target_session_attrs=any';
  t.equal(await tlsIn(`${url}?sslmode=disable&${without_effect}`), false);
});
