/** GET /livez and GET /readyz: for watchdogs and routers, without a key. */
import * as v from 'valibot';
import { isAway } from '../../db.ts';
import type { Log } from '../../log.ts';
import type { Health } from '../../store/service_health.ts';
import { STATUS } from '../wire/answer.ts';
import { unavailable } from '../wire/problem.ts';
import type { ApiCall } from './api_call.ts';
import { BARE, type Operation } from './operation.ts';

export const PROBE = v.strictObject({ status: v.picklist(['live', 'ready']) });

type Texts = Pick<Operation, 'summary' | 'description'>;

const LIVE: Texts = {
  summary: 'The process answers',
  description: 'Restart a process that does not answer this.',
};
const READY: Texts = {
  summary: 'Requests may be sent here',
  description:
    'Not while the process stops, nor while its database is away: then the answer is 503.',
};

const operation = (id: string, texts: Texts, problems: Operation['problems']): Operation => ({
  id,
  tag: 'probes',
  ...texts,
  success: [{ status: '200', description: 'Yes.', schemas: { Probe: PROBE }, headers: [] }],
  problems,
});

/** The process answers. A watchdog should restart a process for nothing else. */
export const livez: ApiCall = {
  method: 'GET',
  path: '/livez',
  keyed: false,
  operation: operation('livez', LIVE, BARE),
  handler: () => ({ status: STATUS.ok, body: { status: 'live' } }),
};

/** Requests may be sent here: not while the process stops, nor while its database is away. */
export const readyz: ApiCall = {
  method: 'GET',
  path: '/readyz',
  keyed: false,
  operation: operation('readyz', READY, [...BARE, 'unavailable']),
  async handler(web) {
    if (!web.isOpen()) return unavailable('This process is stopping.');
    if (await web.isReady()) return { status: STATUS.ok, body: { status: 'ready' } };
    return unavailable('The database is away.');
  },
};

/** Anybody may ask for readiness, so the database is asked once in this time at most. */
const READINESS_KEPT_MS = 1_000;

export function createReadiness(health: Pick<Health, 'ping'>, log: Log): () => Promise<boolean> {
  let asked_ms = -Infinity;
  let last: Promise<boolean> = Promise.resolve(false);
  return () => {
    const now = performance.now();
    if (now - asked_ms >= READINESS_KEPT_MS) {
      asked_ms = now;
      last = pings(health, log);
    }
    return last;
  };
}

async function pings(health: Pick<Health, 'ping'>, log: Log): Promise<boolean> {
  try {
    await health.ping();
    return true;
  } catch (error) {
    if (!isAway(error)) log.error({ code: (error as { code?: string }).code }, 'ping failed');
    return false;
  }
}
