import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { databaseAddress } from '../../src/config/database_tls.ts';

const auto = { database_tls: 'auto', database_ca_file: null } as const;
const at = (url: string, config: Parameters<typeof databaseAddress>[0] = auto) =>
  databaseAddress(config, url);

t.test('no TLS to this machine, TLS to any other', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '[::1]', '%2Fvar%2Frun', '%2fvar%2frun']) {
    t.equal(at(`postgres://u:p@${host}/db`).tls, false, host);
  }
  t.strictSame(at('postgres://u:p@db.example.com:5432/db').tls, { rejectUnauthorized: false });
});

t.test(
  'sslmode in the address decides, and is removed from it, because two clients read it differently',
  async (t) => {
    const of = (mode: string) =>
      at(`postgres://u:p@db.example.com/db?sslmode=${mode}&application_name=x`);
    t.equal(of('disable').tls, false);
    t.strictSame(of('require').tls, { rejectUnauthorized: false });
    t.strictSame(of('verify-full').tls, { rejectUnauthorized: true });
    t.equal(of('require').url, 'postgres://u:p@db.example.com/db?application_name=x');
    const ssl = (mode: string) => at(`postgres://u:p@db.example.com/db?ssl=${mode}`).tls;
    t.same([ssl('0'), ssl('1')], [false, { rejectUnauthorized: false }]);
    const local = at('postgres://u:p@%2Fvar%2Frun/db?sslmode=require&sslrootcert=/none');
    t.same(local, { url: 'postgres://u:p@%2Fvar%2Frun/db', tls: false }, 'a socket has no TLS');
  },
);

t.test('the variable overrides the address', async (t) => {
  const url = 'postgres://u:p@db.example.com/db?sslmode=disable';
  t.strictSame(at(url, { ...auto, database_tls: 'verify-full' }).tls, { rejectUnauthorized: true });
});

t.test('the database is checked against the configured certificates', async (t) => {
  const file = join(t.testdir(), 'ca.pem');
  writeFileSync(file, 'certificates');
  const { tls } = at('postgres://u:p@db.example.com/db', { ...auto, database_ca_file: file });
  t.strictSame(tls, { rejectUnauthorized: true, ca: 'certificates' });
});
