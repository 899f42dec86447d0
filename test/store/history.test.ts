/**
 * 10,000 random commands on a ledger as its roles use it. Afterwards every row equals the fold of its log, a rebuild
 * changes nothing, and every submission is in the state that the oracle expects.
 */
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { LOSS_REASONS } from '../../src/domain/loss_reasons.ts';
import type { Executions } from '../../src/store/executions.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { verify } from '../../src/store/verify.ts';
import { type Command, decide, type Event, evolve, NEW, type State } from './oracle.ts';
import { seal } from './seal_now.ts';
import {
  failed,
  type Key,
  outcome,
  seeded,
  seedOfRun,
  submission,
  type World,
  webhook,
  world,
} from './world.ts';

const COMMANDS = Number(process.env['RUNLEDGER_TEST_COMMANDS'] ?? 10_000);
const SUBMISSIONS = `select * from runledger.submissions order by id`;

t.test('projections after a random history equal a rebuild', async (t) => {
  const w = await world(t);
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const history = await play(w, seed);
  t.comment(JSON.stringify(history.outcomes));
  for (const kind of [
    'accepted',
    'replayed',
    'rate_limited',
    'queue_full',
    'unauthorized',
    'ended',
    'refused',
    'released',
    'cancelled',
    'already_ended',
  ])
    t.ok(history.outcomes[kind], `the history has something that is ${kind}`);
  const old = await oldShapes(w);

  const before = await verify(w.db, { head: null, signers: [] });
  t.same(before.problems, []);
  const live = await w.db.unsafe(SUBMISSIONS);
  const done = await rebuild(w.db);
  t.equal(done.recounted, 0);
  t.same(await w.db.unsafe(SUBMISSIONS), live);
  await seal(w.web);
  t.same((await verify(w.db, { head: null, signers: [] })).problems, []);

  t.test('the oracle and SQL agree', async (t) => {
    const folded = await foldedStates(w);
    for (const row of live.filter((row) => !old.has(row['id']))) {
      const expected = history.states.get(row['id'])!;
      const found = folded.get(row['id'])!;
      t.same(found, expected, row['id']);
      t.match(row, {
        status: expected.status,
        version: expected.version,
        attempts: expected.attempts,
        deaths: expected.deaths,
        verdict: expected.verdict,
        has_webhook: expected.webhook,
      });
    }
  });
});

type History = { outcomes: Record<string, number>; states: Map<string, State> };

/** Random commands to SQL, and the same to the oracle. */
async function play(w: World, seed: number): Promise<History> {
  const random = seeded(seed);
  const { submit } = w.submissions(60);
  await w.tier('few', 40, 3);
  await w.tier('wide', 5000, 0);
  const accounts = ['one', 'two', 'three'];
  const keys: Key[] = [];
  for (const account of accounts)
    for (const tier of ['few', 'wide']) keys.push(await w.key({ account, tier }));
  const consumers: { id: string; executions: Executions }[] = [];
  for (let n = 0; n < 3; n++) consumers.push(await w.consumer());
  const states = new Map<string, State>();
  const outcomes: Record<string, number> = {};
  const seen = (kind: string) => {
    outcomes[kind] = (outcomes[kind] ?? 0) + 1;
  };
  const apply = (id: string, command: Command) => {
    const state = states.get(id) ?? NEW;
    const events = decide(state, command);
    states.set(id, events.reduce(evolve, state));
    return events;
  };
  const live: string[] = [];
  const replayable: string[] = [];
  let job = 0;

  const steps: Record<string, () => Promise<void>> = {
    async submit() {
      const burst = Array.from({ length: 1 + random.below(30) }, () => {
        const idempotency_key =
          random.next() < 0.1 && replayable.length > 0
            ? random.pick(replayable)
            : random.next() < 0.3
              ? randomUUID()
              : null;
        if (idempotency_key) replayable.push(idempotency_key);
        const one = submission({
          idempotency_key,
          webhook: random.next() < 0.3 ? webhook() : null,
          stdin: Buffer.from(random.next() < 0.5 ? '' : 'in\u0000put'),
        });
        const digest = random.next() < 0.03 ? new Uint8Array(32) : random.pick(keys).digest;
        return { one, digest };
      });
      const answers = await Promise.all(
        burst.map(({ one, digest }) => submit({ secret_digest: digest, submission: one })),
      );
      answers.forEach((answer, n) => {
        seen(answer.kind);
        if (answer.kind !== 'accepted') return;
        apply(answer.id, { kind: 'submit', webhook: burst[n]!.one.webhook !== null });
        live.push(answer.id);
      });
    },
    async start() {
      const consumer = random.pick(consumers);
      // A gated submission has no job, so no worker can start it.
      const gated = new Set(
        (await w.db`select submission_id from runledger.gated`).map((row) => row['submission_id']),
      );
      const ids = [
        ...new Set(Array.from({ length: 1 + random.below(30) }, () => random.pick(live))),
      ].filter((id) => !gated.has(id));
      await Promise.all(
        ids.map(async (id) => {
          const started = await consumer.executions.start({
            submission_id: id,
            job_id: String(++job),
            priority: 0,
          });
          const events = apply(id, { kind: 'start', consumer: consumer.id });
          seen(started ? 'started' : 'stale');
          if ((started === null) !== (events.length === 0))
            throw new Error(`start of ${id} differs`);
        }),
      );
    },
    async complete() {
      const ids = [
        ...new Set(Array.from({ length: 1 + random.below(30) }, () => random.pick(live))),
      ];
      await Promise.all(
        ids.map(async (id) => {
          const state = states.get(id)!;
          const consumer =
            (random.next() < 0.9 && consumers.find((one) => one.id === state.consumer)) ||
            random.pick(consumers);
          const attempt =
            random.next() < 0.9 ? state.attempts : state.attempts + 1 + random.below(2);
          const result =
            random.next() < 0.1 ? failed() : outcome({ verdict: random.pick(['AC', 'WA', 'TLE']) });
          const { status, verdict } = result;
          const answer = await consumer.executions.complete({
            submission_id: id,
            attempt,
            outcome: result,
          });
          seen(answer);
          const events = apply(id, {
            kind: 'complete',
            consumer: consumer.id,
            attempt,
            status,
            verdict,
          });
          if ((events[0]?.type === 'execution.refused') !== (answer === 'refused'))
            throw new Error(`complete of ${id} differs`);
        }),
      );
    },
    async release() {
      const consumer = random.pick(consumers);
      const reason = random.next() < 0.5 ? 'worker_died' : random.pick(LOSS_REASONS);
      const ids = [...states]
        .filter(([, state]) => state.consumer === consumer.id && state.status === 'running')
        .map(([id]) => id);
      const some = ids.filter(() => random.next() < 0.4);
      if (some.length === 0) return;
      const { released } = await consumer.executions.release(some, reason);
      for (const id of released) {
        seen('released');
        apply(id, { kind: 'release', consumer: consumer.id, reason });
      }
    },
    async cancel() {
      const id = random.pick(live);
      const outcome = await w.cancel(id);
      seen(outcome);
      const { status } = states.get(id)!;
      apply(id, { kind: 'cancel' });
      if ((outcome === 'cancelled') !== (states.get(id)!.status === 'cancelled'))
        throw new Error(`cancel of ${status} ${id} differs`);
    },
    async tiers() {
      await w.tier('few', 20 + random.below(60), 1 + random.below(6));
    },
    async expire() {
      const [row] = await w.db<{ gated: string[] }[]>`
        select coalesce(array_agg(id), '{}') as gated from (
          select submission_id as id from runledger.gated order by random() limit 2) x`;
      if (row!.gated.length === 0) return;
      // As expire_pending ends what has waited too long, without the wait.
      await w.db.begin(async (tx) => {
        const ids = `{${row!.gated.toSorted()}}`;
        await tx`select from runledger.queue_state for update`;
        await tx`select runledger.end_submissions(${ids}::text::uuid[], clock_timestamp(),
          array_fill('submission.failed'::text, array[${row!.gated.length}::int]),
          (select array_agg('{"verdict": "IE", "attempt": 0, "evidence": {"failed_for": "age"}}'::jsonb) from unnest(${ids}::text::uuid[])))`;
      });
      for (const id of row!.gated) {
        seen('expired');
        apply(id, { kind: 'expire' });
      }
    },
  };
  const mix = [
    'submit',
    'submit',
    'start',
    'start',
    'start',
    'complete',
    'complete',
    'release',
    'cancel',
    'cancel',
    'tiers',
    'expire',
  ];
  while (live.length === 0) await steps['submit']!();
  const total = () => Object.values(outcomes).reduce((sum, n) => sum + n, 0);
  while (total() < COMMANDS) {
    const name = random.pick(mix);
    if (name === 'tiers' && random.next() < 0.9) continue;
    await steps[name]!();
    // Later commands choose among recent submissions.
    while (live.length > 200) live.shift();
  }
  return { outcomes, states };
}

/** Events in the shapes of an earlier version, and their projection now. */
async function oldShapes(w: World): Promise<Set<string>> {
  const ids = new Set<string>();
  const [key] = await w.db`select id, account_id from runledger.keys limit 1`;
  for (let n = 0; n < 20; n++) {
    const one = submission();
    ids.add(one.id);
    const accepted = {
      account_id: key!['account_id'],
      key_id: key!['id'],
      language: 'python',
      bytes: {},
      compare: 'lenient',
      limits: {},
    };
    const completed = {
      attempt: 1,
      verdict: 'AC',
      exit_code: 0,
      signal: null,
      memory_peak_bytes: 1000,
      cpu_ms: n,
      wall_ms: 2 * n,
      truncated: n % 2 === 0,
      compile: null,
      evidence: {},
      bytes: {},
    };
    const started = { attempt: 1, pool: randomUUID() };
    await w.db`select runledger.append_events(${one.id}, 0, '{submission.accepted,execution.started,submission.completed}',
      ${[accepted, started, completed].map((facts) => JSON.stringify(facts))}::text[]::jsonb[], '{1,1,1}')`;
    await w.db`insert into runledger.submissions select * from runledger.fold_submissions(array[${one.id}]::uuid[])`;
    const [row] = await w.db`select * from runledger.submissions where id = ${one.id}`;
    t.match(row, {
      status: 'completed',
      cpu_time_us: String(n * 1000),
      wall_time_us: String(n * 2000),
      stdout_truncated: n % 2 === 0,
      stderr_truncated: n % 2 === 0,
    });
  }
  return ids;
}

/** The log, folded by the oracle. */
async function foldedStates(w: World): Promise<Map<string, State>> {
  const events = await w.db<(Event & { stream: string })[]>`
    select stream, type, facts from runledger.log where stream < 'f0000000-0000-0000-0000-000000000000' order by stream, version`;
  const states = new Map<string, State>();
  for (const event of events)
    states.set(event.stream, evolve(states.get(event.stream) ?? NEW, event));
  return states;
}
