import t from 'tap';
import { connect } from '../../src/db.ts';
import { catalogueMarks, reportChanges } from '../../src/store/catalogue_changes.ts';
import { runIn } from '../../src/store/lanes.ts';
import { Problems } from '../../src/store/problems.ts';
import { believable, type Comparison, compareAll } from '../../src/store/verify_projections.ts';
import { aloneOnItsServer, freshDatabase } from '../support/database.ts';

aloneOnItsServer();

async function scene(t: Parameters<typeof freshDatabase>[0]) {
  const database = await freshDatabase(t);
  const root = connect(database.superuser_url, { name: 'administrator', max: 1 });
  t.teardown(() => root.end());
  await root`set search_path = pg_catalog`;
  const changesOf = async (work: () => Promise<unknown>) => {
    const problems = new Problems();
    const marks = await catalogueMarks(root);
    await work();
    await reportChanges(root, marks, problems);
    return problems.lines();
  };
  return { root, changesOf };
}

t.test('a row that was written again is a change', async (t) => {
  const { root, changesOf } = await scene(t);
  for (const [row, name] of [
    [
      `pg_aggregate set agginitval = agginitval where aggfnoid = 'count()'::regprocedure`,
      'function count()',
    ],
    [
      `pg_attribute set attnum = attnum where attrelid = 'runledger.keys'::regclass and attname = 'id'`,
      'column id of table runledger.keys',
    ],
    [
      `pg_index set indkey = indkey where indexrelid = 'runledger.keys_pkey'::regclass`,
      'index runledger.keys_pkey',
    ],
    [
      `pg_inherits set inhseqno = inhseqno where inhrelid = 'runledger.events_default'::regclass`,
      'table runledger.events_default',
    ],
    [
      `pg_constraint set conname = conname where conrelid = 'runledger.keys'::regclass and contype = 'p'`,
      'constraint keys_pkey on table runledger.keys',
    ],
    [
      `pg_attrdef set adnum = adnum where adrelid = 'runledger.migrations'::regclass`,
      'default value for column applied_at of table runledger.migrations',
    ],
    [
      `pg_partitioned_table set partnatts = partnatts where partrelid = 'runledger.events'::regclass`,
      'table runledger.events',
    ],
    [`pg_collation set collname = collname where collname = 'C'`, 'collation "C"'],
    [
      `pg_range set rngsubtype = rngsubtype where rngtypid = 'int8range'::regtype`,
      'type int8range',
    ],
  ] as const)
    t.same(await changesOf(() => root.unsafe(`update ${row}`)), [
      `the schema was changed while verify ran: ${name}. Run it again`,
    ]);
});

t.test('what the service and autovacuum do is no change', async (t) => {
  const { root, changesOf } = await scene(t);
  t.same(
    await changesOf(async () => {
      await root`select runledger.ensure_partitions(6)`;
      await root`analyze`;
      await root`vacuum`;
      await root`insert into runledger.refusals (hour, error, requests, last_at, last_request_id, key_prefix)
        values (date_trunc('hour', now()), 'a', 1, now(), 'x', 'rl_x')`;
    }),
    [],
  );
});

t.test('a database that counts nothing is not believed', async (t) => {
  const { root } = await scene(t);
  const compared = async () => {
    const all = await root.begin((tx) => compareAll(runIn(tx)));
    return believable(all as Comparison[], new Set(['tier.set']))
      .filter(({ problem }) => problem !== null)
      .map(({ name, problem }) => `${name}: ${problem}`);
  };
  const count = (by: string) =>
    root.unsafe(
      `update pg_aggregate set aggtransfn = '${by}'::regproc where aggfnoid = 'count()'::regprocedure`,
    );
  t.same(await compared(), []);
  await count('int8up');
  t.same(await compared(), ['tiers: the database saw no rows, and the log has tier.set']);
  await root`update runledger.queue_state set accepted = 7`;
  t.match(await compared(), [
    'tiers: the database saw no rows, and the log has tier.set',
    'counters of the queue: the database counts no difference, and one differs',
  ]);
  await count('int8inc');
  await root.unsafe(
    `create function pg_catalog.to_jsonb(record) returns jsonb language plpgsql as $$ begin return 'null'; end $$`,
  );
  t.match(await compared(), [
    'counters of the queue: the database counts differences, and names none',
  ]);
});
