/** deploy/ha: what must hold so that nothing answered is lost. That the files work is seen by the drill failover. */
import t from 'tap';
import { read, yaml } from './manifests.ts';

const patroni = yaml('deploy/ha/patroni.yml');
const { dcs } = patroni.bootstrap;
const etcd = new Map(
  read('deploy/ha/etcd.env')
    .split('\n')
    .filter((line) => /^[A-Z]/.test(line))
    .map((line) => line.split(/=(.*)/s) as [string, string]),
);
const haproxy = read('deploy/ha/haproxy.cfg');

t.test('what was acknowledged is on two machines, and one of them is promoted', async (t) => {
  t.match(dcs, { synchronous_mode: true, synchronous_mode_strict: true });
  t.equal(dcs.postgresql.parameters.synchronous_commit, 'on');
  t.notOk('etcd3' in patroni, 'the lead is only taken where nobody has it');
  t.equal(etcd.get('ETCD_ENABLE_V2'), 'true');
});

t.test('the times are those that Patroni allows', async (t) => {
  t.ok(dcs.ttl >= 20);
  t.ok(dcs.loop_wait + 2 * dcs.retry_timeout <= dcs.ttl);
});

t.test('all files name the same machines', async (t) => {
  const servers = haproxy.matchAll(/server (\w+) ([\d.]+):5432$/gm);
  const machines = [...servers].map(([, name = '', address = '']) => ({ name, address }));
  t.equal(machines.length, 3);
  const at = (port: number) => machines.map(({ address }) => `${address}:${port}`).join();
  t.equal(patroni.etcd.hosts, at(2379));
  const peers = machines.map(({ name, address }) => `${name}=http://${address}:2380`);
  t.equal(etcd.get('ETCD_INITIAL_CLUSTER'), peers.join());
  const changing = ['127.0.0.1', ...machines.map(({ address }) => address)];
  t.same(patroni.restapi.allowlist, changing, 'a machine with HAProxy may only read');
  t.match(haproxy, /on-marked-down shutdown-sessions/);
});

t.test('the document has the settings that the files have', async (t) => {
  const [, section = ''] = read('DEPLOYING.md').split('## Past one machine\n');
  const files = [read('deploy/ha/patroni.yml'), haproxy].join('\n');
  const [table = ''] = section.split('| setting | without it |\n|---|---|\n')[1]!.split('\n\n');
  for (const row of table.split('\n'))
    for (const [, setting = ''] of row.split('|')[1]!.matchAll(/`([^`]*)`/g))
      t.ok(files.includes(setting) || setting === 'etcd3', setting);
});
