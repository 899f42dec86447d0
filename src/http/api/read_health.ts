/** GET /api/health and GET /api/health/ready: the state of the service, for callers with a key. */
import * as v from 'valibot';
import type { ServiceHealth } from '../../store/service_health.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { unavailable } from '../wire/problem.ts';
import type { ApiCall, Web } from './api_call.ts';
import { COMMON, type Operation, RATE } from './operation.ts';
import { whole } from './result_schema.ts';
import { spendThen } from './spend_rate.ts';

export const HEALTH = v.strictObject({
  status: v.pipe(
    v.picklist(['ok', 'degraded']),
    v.description(
      'degraded: no worker is alive, or one has weaker isolation, or a witness has another tree.',
    ),
  ),
  queue: v.strictObject({
    pending: v.pipe(whole, v.description('Submissions that wait.')),
    running: whole,
    capacity: v.pipe(whole, v.description('The most that may wait; beyond it the answer is 503.')),
  }),
  workers: v.strictObject({
    alive: whole,
    slots: v.pipe(whole, v.description('Programs that can run at once.')),
  }),
  isolation: v.strictObject({
    kinds: v.array(v.string()),
    degraded: v.boolean(),
    missing: v.pipe(
      v.array(v.string()),
      v.description("What workers' machines lack for full isolation, and how to get it."),
    ),
  }),
  languages: v.array(v.string()),
  log: v.strictObject({
    problem: v.pipe(
      v.nullable(v.string()),
      v.description('Why this process signs no checkpoints of the log; null while it does.'),
    ),
    unsealed: v.pipe(
      whole,
      v.description('Events that no checkpoint covers yet; not more than 10,000 are counted.'),
    ),
    checkpoint_age_s: v.pipe(
      v.nullable(v.number()),
      v.description(
        'Age of the newest checkpoint; null: there is none. Without new events none is made.',
      ),
    ),
    retention_problem: v.pipe(
      v.nullable(v.string()),
      v.description('Why old data is still there that is due to be removed; null if it is not.'),
    ),
    witnesses: v.pipe(
      v.array(
        v.strictObject({
          name: v.string(),
          lag_leaves: v.pipe(
            v.nullable(whole),
            v.description(
              'Events that were sealed and that it has not cosigned; null if not known yet.',
            ),
          ),
          lag_s: v.pipe(
            v.nullable(whole),
            v.description('For how long there has been a checkpoint that it has not cosigned.'),
          ),
          forked: v.pipe(v.boolean(), v.description('It has another tree: the log has forked.')),
          problem: v.pipe(v.nullable(v.string()), v.description('Why it does not cosign.')),
        }),
      ),
      v.description('The witnesses that cosign checkpoints of the log.'),
    ),
  }),
});

const operation = (id: string, summary: string, description: string): Operation => ({
  id,
  tag: 'service',
  summary,
  description,
  success: [
    {
      status: '200',
      description: 'The state of the service.',
      schemas: { Health: HEALTH },
      headers: RATE,
    },
  ],
  problems: ['method_not_allowed', ...COMMON],
});

export const health: ApiCall = {
  method: 'GET',
  path: '/api/health',
  keyed: true,
  operation: operation(
    'health',
    'Queue, workers, isolation',
    'Answers 200 while the service answers at all: `status` says how it is.',
  ),
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (now) => ({ status: STATUS.ok, body: bodyOf(web, now) })),
};

/** Ready to run code: the database answers, and a worker is alive. */
export const healthReady: ApiCall = {
  method: 'GET',
  path: '/api/health/ready',
  keyed: true,
  operation: operation(
    'healthReady',
    'The same, 503 without a worker',
    'For monitoring: 200 means that a submission would run now.',
  ),
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (now) =>
      now.workers > 0
        ? { status: STATUS.ok, body: bodyOf(web, now) }
        : unavailable('No worker is alive; submissions wait for one.'),
    ),
};

function bodyOf(web: Web, now: ServiceHealth): v.InferOutput<typeof HEALTH> {
  const witnesses = web.witnesses();
  const forked = witnesses.some((each) => each.forked);
  return {
    status: now.workers > 0 && !now.degraded && !forked ? 'ok' : 'degraded',
    queue: { pending: now.pending, running: now.running, capacity: web.config.queue_capacity },
    workers: { alive: now.workers, slots: now.slots },
    isolation: { kinds: now.isolation, degraded: now.degraded, missing: now.missing },
    languages: Object.keys(now.toolchains).sort(),
    log: {
      problem: web.sealingProblem(),
      unsealed: now.unsealed,
      checkpoint_age_s: now.checkpoint_age_s,
      retention_problem: now.retention_problem,
      witnesses: witnesses.map(({ name, cosigned, problem, forked }) => ({
        name,
        lag_leaves: cosigned?.behind ?? null,
        lag_s: cosigned && Math.round(cosigned.behind_s),
        forked,
        // Other reasons can name addresses of the operator's network.
        problem: problem && !forked ? "It does not cosign; web's log says why." : problem,
      })),
    },
  };
}

/** Spends from the key's rate, and only then reads the state. */
export async function withHealth(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: (health: ServiceHealth) => Answer,
): Promise<Answer> {
  const spent: Answer = { status: STATUS.ok };
  const outcome = await spendThen(web, exchange, digest, spent);
  return outcome === spent ? answer(await web.health.read()) : outcome;
}
