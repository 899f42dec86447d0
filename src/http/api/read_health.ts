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

const HEALTH = v.strictObject({
  status: v.pipe(
    v.picklist(['ok', 'degraded']),
    v.description('degraded: no worker is alive, or one has weaker isolation.'),
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
});

const operation = (id: string, summary: string): Operation => ({
  id,
  summary,
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
  operation: operation('health', 'Queue, workers, isolation'),
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (now) => ({ status: STATUS.ok, body: bodyOf(web, now) })),
};

/** Ready to run code: the database answers, and a worker is alive. */
export const healthReady: ApiCall = {
  method: 'GET',
  path: '/api/health/ready',
  keyed: true,
  operation: operation('healthReady', 'The same, 503 without a worker'),
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (now) =>
      now.workers > 0
        ? { status: STATUS.ok, body: bodyOf(web, now) }
        : unavailable('No worker is alive; submissions wait for one.'),
    ),
};

function bodyOf(web: Web, now: ServiceHealth): v.InferOutput<typeof HEALTH> {
  return {
    status: now.workers > 0 && !now.degraded ? 'ok' : 'degraded',
    queue: { pending: now.pending, running: now.running, capacity: web.config.queue_capacity },
    workers: { alive: now.workers, slots: now.slots },
    isolation: { kinds: now.isolation, degraded: now.degraded, missing: now.missing },
    languages: now.languages,
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
