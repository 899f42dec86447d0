/** Whether it works: for callers with a key in some detail, for routers and watchdogs in a word. */
import { isAway } from '../db.ts';
import type { ServiceHealth } from '../store/service_health.ts';
import type { Exchange } from './exchange.ts';
import { type Answer, problem, STATUS } from './problem.ts';
import { spendThen } from './spend.ts';
import type { KeyedHandler, Web } from './web.ts';

/** When the database is away it comes back within seconds, or a person has to act. */
export const UNAVAILABLE_RETRY_S = 2;
/** Readiness is asked for by whoever finds the address: the database is asked once a second at most. */
const READINESS_KEPT_MS = 1_000;

export const languages: KeyedHandler = (web, exchange, digest) =>
  withHealth(web, exchange, digest, (health) => {
    const offered: readonly string[] = web.config.languages;
    const body = { languages: health.languages.filter((name) => offered.includes(name)) };
    return { status: STATUS.ok, body };
  });

export const health: KeyedHandler = (web, exchange, digest) =>
  withHealth(web, exchange, digest, (now) => ({ status: STATUS.ok, body: healthBody(web, now) }));

/** Ready to run code: the database answers, and a worker is alive. */
export const healthReady: KeyedHandler = (web, exchange, digest) =>
  withHealth(web, exchange, digest, (now) =>
    now.workers > 0
      ? { status: STATUS.ok, body: healthBody(web, now) }
      : unavailable('No worker is alive; what is submitted waits for one.'),
  );

function healthBody(web: Web, now: ServiceHealth): object {
  return {
    status: now.workers > 0 && !now.degraded ? 'ok' : 'degraded',
    queue: { pending: now.pending, running: now.running, capacity: web.config.queue_capacity },
    workers: { alive: now.workers, slots: now.slots },
    isolation: { kinds: now.isolation, degraded: now.degraded },
    languages: now.languages,
  };
}

async function withHealth(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: (health: ServiceHealth) => Answer,
): Promise<Answer> {
  const spent: Answer = { status: STATUS.ok };
  const outcome = await spendThen(web, exchange, digest, spent);
  return outcome === spent ? answer(await web.health.read()) : outcome;
}

export function unavailable(message?: string): Answer {
  return problem('unavailable', {
    headers: { 'Retry-After': UNAVAILABLE_RETRY_S },
    ...(message !== undefined && { message }),
  });
}

/** The process answers: all that a watchdog should act upon. */
export function livez(): Answer {
  return { status: STATUS.ok, body: { status: 'live' } };
}

/** Requests may be sent here: not while it stops, nor while its database is away. */
export function createReadiness(): (web: Web) => Promise<Answer> {
  let asked_ms = -Infinity;
  let last: Promise<boolean> = Promise.resolve(false);
  return async (web) => {
    if (!web.isOpen()) return unavailable('This process is stopping.');
    const now = performance.now();
    if (now - asked_ms >= READINESS_KEPT_MS) {
      asked_ms = now;
      last = pings(web);
    }
    if (await last) return { status: STATUS.ok, body: { status: 'ready' } };
    return unavailable('The database is away.');
  };
}

async function pings(web: Web): Promise<boolean> {
  try {
    await web.health.ping();
    return true;
  } catch (error) {
    if (!isAway(error)) web.log.error({ code: (error as { code?: string }).code }, 'ping failed');
    return false;
  }
}
