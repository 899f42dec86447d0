/**
 * A replica that lags is promoted by hand, beside the primary, and gets events of its own: one log has become two. The witness has
 * cosigned the primary's, so it refuses the copy's, and a web process on the copy says so and signs nothing.
 */
import assert from 'node:assert/strict';
import { call } from '../../http/support/call.ts';
import type { WebProcess } from '../../http/support/web_process.ts';
import { eventually } from '../../support/eventually.ts';
import type { Machine } from './machines.ts';
import { command, ownerAt, sealing, startWeb, urlOf, type Witness } from './service.ts';

type Stage = Parameters<typeof startWeb>[0];

export async function tryForkedCopy(
  stage: Stage,
  replica: Machine,
  { witness, web, key }: { witness: Witness; web: WebProcess; key: string },
): Promise<void> {
  const there = `${replica.address}:5432`;
  const sql = (text: string) => replica.run('psql', '-X', '-qtA', '-d', 'postgres', '-c', text);
  replica.signal('SIGKILL', ['patroni']);
  sql(`alter system set primary_conninfo = ''`);
  sql('select pg_reload_conf()');
  const receives = async () => sql('select count(*) from pg_stat_wal_receiver') === '0';
  assert.ok(await eventually(receives), 'the replica still follows the primary');

  const before = await witness.size();
  await command(['keys', 'create', '--account', 'known to the primary'], {});
  await command(['seal'], sealing(witness));
  assert.ok((await witness.size()) > before);

  sql(`alter system set synchronous_standby_names = ''`);
  sql('select pg_promote()');
  const env = { DATABASE_URL: urlOf('runledger_owner', there) };
  await command(['keys', 'create', '--account', 'known to the copy'], env);
  const db = ownerAt(there);
  stage.teardown(() => db.end({ timeout: 1 }));
  const checkpoints = async () =>
    (await db`select count(*)::integer as n from runledger.checkpoints`)[0]!['n'] as number;
  const signed = await checkpoints();

  const copy = await startWeb(stage, witness, there);
  const health = async ({ origin }: WebProcess) =>
    (await call(origin, { path: '/api/health', key })).json;
  const says = async () => /has forked/.test((await health(copy)).log?.problem ?? '');
  assert.ok(await eventually(says), 'web does not say that the log has forked');
  const { status, log } = await health(copy);
  assert.equal(status, 'degraded');
  assert.ok(copy.written.some((line) => line.includes('a witness has another tree')));
  assert.equal(await checkpoints(), signed, 'the copy signed a checkpoint');
  stage.say(`a copy that went on alone: ${log.problem}`);
  await copy.stop();
  assert.equal((await health(web)).log.problem, null, 'the primary goes on');
}
