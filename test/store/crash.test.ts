/** PostgreSQL is killed during appends. Afterwards everything that was answered exists, and verify finds no problem. */
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, isAway } from '../../src/db.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { verify } from '../../src/store/verify.ts';
import { ownServer } from '../support/database.ts';
import { key } from './seal_now.ts';
import { outcome, start, submission } from './world.ts';

t.test('kill -9 of PostgreSQL in the middle of appends', async (t) => {
  const server = await ownServer(t);
  // New ones after each start of the server: older connections may not have noticed its end yet.
  const open = () => {
    const opened = connect(server.url, { name: 'test', max: 8 });
    t.teardown(() => opened.end({ timeout: 1 }));
    return opened;
  };
  let db = open();
  const digest = secretDigest(newSecret('rl'));
  await setTier(db, { name: 'free', per_minute: 0, concurrent: 1000 });
  await createKey(db, { account: 'acme', tier: 'free', prefix: 'rl', secret_digest: digest });

  const answered = { accepted: new Set<string>(), ended: new Set<string>() };
  const sealer = createSealer(key);
  for (let round = 0; round < 3; round++) {
    const { submit } = createSubmissions(db, { queue_capacity: 1_000_000 });
    const consumer = crypto.randomUUID();
    await db`select runledger.register_consumer(${consumer}, 'worker', 'host', 2, '{"python": "none"}', '{}', ${2 ** 40 + round})`;
    const executions = createExecutions(db, db, consumer);
    let stop = false;
    const enough = Promise.withResolvers<void>();
    let count = 0;
    const working = Array.from({ length: 16 }, async () => {
      while (!stop) {
        const one = submission();
        try {
          const answer = await submit({ secret_digest: digest, submission: one });
          if (answer.kind !== 'accepted') throw new Error(answer.kind);
          answered.accepted.add(one.id);
          await start(executions, one.id, ++count);
          await executions.complete({ submission_id: one.id, attempt: 1, outcome: outcome() });
          answered.ended.add(one.id);
          if (answered.ended.size >= 150 * (round + 1)) enough.resolve();
        } catch (error) {
          if (!isAway(error)) throw error;
          return;
        }
      }
    });
    await enough.promise;
    await sealer.seal(db);
    await server.kill();
    stop = true;
    await Promise.all(working);
    await startAgain(server);
    db = open();
    const found = async (status: string[]) =>
      new Set(
        (await db`select id from runledger.submissions where status = any (${status})`).map(
          (row) => row['id'],
        ),
      );
    const all = await found(['pending', 'running', 'completed']);
    const completed = await found(['completed']);
    t.same(
      [...answered.accepted].filter((id) => !all.has(id)),
      [],
      'what was accepted is there',
    );
    t.same(
      [...answered.ended].filter((id) => !completed.has(id)),
      [],
      'what was said to have ended has',
    );
    // The sealer remembers what it signed before the kill: the log must extend it.
    await sealer.seal(db);
    t.same((await verify(db, { head: null, signers: [] })).problems, []);
  }
  t.comment(`${answered.accepted.size} accepted, ${answered.ended.size} ended`);
});

/** The killed server's child processes keep its data in use for a moment. Until they have gone it cannot start. */
async function startAgain(server: { start(): Promise<void> }): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await server.start();
    } catch (error) {
      if (attempt === 50) throw error;
      await new Promise((wake) => setTimeout(wake, 100));
    }
  }
}
