/** GET /livez and GET /readyz: for watchdogs and routers, without a key. */
import * as v from 'valibot';
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
    'Not while the process stops, nor while no submission could be stored: then the answer is 503, and its message names what is missing. A full queue is not counted, because results can be read all the same.',
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

/** Requests may be sent here: not while the process stops, nor while no submission could be stored. */
export const readyz: ApiCall = {
  method: 'GET',
  path: '/readyz',
  keyed: false,
  operation: operation('readyz', READY, [...BARE, 'unavailable']),
  async handler(web) {
    if (!web.isOpen()) return unavailable('This process is stopping.');
    const problem = await web.readiness.problem();
    if (problem === null) return { status: STATUS.ok, body: { status: 'ready' } };
    return unavailable(problem);
  },
};
