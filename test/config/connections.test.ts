/** Who holds how many connections: every pool is obeyed, and OPERATING.md has the table. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  CONNECTIONS,
  type Holder,
  heldBy,
  LEAST_POOL,
  sharesOf,
} from '../../src/config/connections.ts';
import { variables } from '../../src/config/variables.ts';

const POOLS = Array.from({ length: 101 - LEAST_POOL }, (_, n) => LEAST_POOL + n);

t.test('of every pool a process holds all that it can use, and no more', async (t) => {
  for (const pool of POOLS)
    for (const holder of ['web', 'worker'] as const) {
      const shares = Object.values(sharesOf(holder, pool));
      t.equal(
        shares.reduce((sum, share) => sum + share, 0),
        heldBy(holder, pool),
        `${holder} with ${pool}`,
      );
    }
  t.throws(() => sharesOf('web', LEAST_POOL - 1), RangeError);
});

t.test('a small pool has what is needed, and a large one serves requests', async (t) => {
  const small = { notifications: 1, heartbeat: 1, deliveries: 2, requests: 2 };
  t.match(sharesOf('web', 7), { ...small, maintenance: 0, submitting: 0, asking: 0 });
  const fixed = { notifications: 1, heartbeat: 1, deliveries: 3, maintenance: 1 };
  t.match(sharesOf('web', 16), { ...fixed, submitting: 1, asking: 1, requests: 7 });
  t.equal(sharesOf('worker', 16).statements, 3);
});

t.test('OPERATING.md has this table, and the bounds', async (t) => {
  const document = readFileSync('OPERATING.md', 'utf8');
  const rows = (Object.keys(CONNECTIONS) as Holder[]).flatMap((holder) =>
    Object.entries(CONNECTIONS[holder]).map(
      ([name, { least, most, why }]) =>
        `| ${holder} | ${name} | ${least} | ${most === Infinity ? 'the rest' : most} | ${why} |`,
    ),
  );
  t.ok(document.includes(rows.join('\n')), rows.join('\n'));
  const { default: preset } = variables.database_pool;
  t.ok(document.includes(`\`RUNLEDGER_DATABASE_POOL\` (${preset}, at least ${LEAST_POOL})`));
  t.ok(document.includes(`a\nworker up to ${heldBy('worker', 100)}.`));
});
