import t from 'tap';
import { seal as sealOld } from '../store/old_chain.ts';
import { seal } from '../store/seal_now.ts';
import { idOf, submission, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';

aloneOnItsServer();

t.test('no role can change the log, a checkpoint or a seal, not even the owner', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const id = idOf(
    await w.submissions().submit({ secret_digest: digest, submission: submission() }),
  );
  await sealOld(w.db, null);
  await seal(w.web);
  await w.db`select runledger.put_cosignature(origin, size, 'w', now(), 'line') from runledger.checkpoints`;
  await w.db`insert into runledger.log_gaps values (0, 1, 'events_2001_01')`;
  // Partitions that are created later have the triggers, too.
  await w.db`select runledger.ensure_partitions(5)`;
  // So that each partition has rows for its row triggers.
  await w.db`insert into runledger.events (stream, version, type, at, generation, facts)
    select x::uuid, 1, 'account.created', now(), 1, '{"name": "x"}'
    from (values ('00000000-0000-7000-8000-000000000000'), (runledger.uuid_floor(now() + interval '5 months')::text)) v(x)`;
  const partitions = await w.db`
    select relid::regclass::text as name from pg_partition_tree('runledger.events')`;
  t.ok(partitions.length >= 8);
  const columns: Record<string, string> = {
    ...Object.fromEntries(partitions.map(({ name }) => [name, 'version'])),
    ...{ 'runledger.seals': 'number', 'runledger.checkpoints': 'number' },
    ...{ 'runledger.cosignatures': 'line', 'runledger.log_gaps': 'first' },
  };
  const refused = { code: 'RL403' };
  for (const [table, column] of Object.entries(columns)) {
    await t.rejects(w.db.unsafe(`truncate ${table}`), refused, `truncate ${table}`);
    const [row] = await w.db.unsafe(`select count(*)::integer as n from ${table}`);
    if (row!['n'] === 0) continue;
    await t.rejects(
      w.db.unsafe(`update ${table} set ${column} = ${column}`),
      refused,
      `update ${table}`,
    );
    await t.rejects(w.db.unsafe(`delete from ${table}`), refused, `delete from ${table}`);
  }
  await t.rejects(
    w.db`insert into runledger.events select * from runledger.events where stream = ${id}
    on conflict (stream, version) do update set facts = '{}'`,
    refused,
    'an insert cannot, either',
  );
  for (const statement of [
    'delete from runledger.log_tiles',
    'truncate runledger.log_tiles',
    'update runledger.log_tiles set hashes = sha256(hashes)',
    'update runledger.log_tiles set index = index + 1',
    'update runledger.log_tiles set xid = null, seq = null, generation = null, level = 1',
  ])
    await t.rejects(w.db.unsafe(statement), refused, statement);
  t.ok(
    await w.db`update runledger.log_tiles set hashes = hashes || sha256('more')`,
    'but a tile grows',
  );
  for (const db of [w.web, w.worker]) {
    for (const statement of [
      'update runledger.events set version = 1',
      'delete from runledger.events',
      'truncate runledger.events',
      'delete from runledger.seals',
      'delete from runledger.checkpoints',
      'delete from runledger.log_tiles',
    ])
      await t.rejects(db.unsafe(statement), { code: '42501' }, statement);
  }
});

t.test('a session in the role of a replica cannot, either', async (t) => {
  const w = await world(t);
  await w.key();
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await t.rejects(root`delete from runledger.events`, { code: 'RL403' });
  await t.rejects(root`truncate runledger.events`, { code: 'RL403' });
});
