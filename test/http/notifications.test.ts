/** The connection on which a web process listens, and what wakes its deliveries. */
import t from 'tap';
import { connect } from '../../src/db.ts';
import { until } from '../support/eventually.ts';
import { startService } from './support/service.ts';

/** Deliveries are also looked for once a second. */
const ROUNDS = 15;
const HALF_A_POLL_MS = 500;
t.test(
  'it listens on one connection, and looks for deliveries when one is announced',
  async (t) => {
    const { database } = await startService(t, { webs: 1 });
    // A superuser sees the queries of other roles.
    const db = connect(database.superuser_url, { name: 'operator', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    const activity = () => db<{ query: string; at: Date }[]>`
    select query, query_start as at from pg_stat_activity where datname = ${database.name}`;
    const last = async (words: RegExp) =>
      (await activity()).map(({ query }) => query).filter((query) => words.test(query));
    // The connection on which graphile-worker listened has stopped.
    await until(async () => (await last(/^unlisten /i)).length > 0);
    await until(async () => (await last(/^listen "runledger_done"/)).length > 0);
    t.equal((await last(/^listen /i)).length, 1);

    const rounds: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      const began = performance.now();
      const [announced] = await db<{ at: Date }[]>`
      select clock_timestamp() as at from pg_notify('jobs:insert', '{"count":1}')`;
      const looked = async () =>
        (await activity()).some(
          ({ query, at }) => query.includes('_private_jobs') && at > announced!.at,
        );
      await until(looked);
      rounds.push(performance.now() - began);
    }
    // By polling alone, each look would be a second apart, from the second one on. On a busy machine many are late for another
    // reason.
    const quarter_ms = rounds.slice(1).sort((a, b) => a - b)[Math.floor(ROUNDS / 4)]!;
    t.ok(quarter_ms < HALF_A_POLL_MS, `a quarter of the looks came within ${quarter_ms} ms`);
  },
);
