/** The clients of a chaos run: what they submit, cancel and wait for, and how they ask again until they are answered. */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { hasEnded, type Status } from '../../src/domain/statuses.ts';
import type { Receiver } from '../webhooks/receiver.ts';
import type { Accepted } from './checks.ts';
import type { Dice } from './dice.ts';
import { follow, type Seen } from './follow.ts';
import { PROGRAMS, type Program } from './programs.ts';
import type { Service } from './service.ts';

const PATIENCE_MS = 10_000;

type Order = {
  program: Program;
  webhook: boolean;
  cancel_after_ms: number | null;
  seen_by: 'nobody' | 'a stream' | 'a call that waits';
};

/** Of one order, or a batch of several. */
export type Call = { key: string; orders: Order[] };

export type Submitted = Omit<Accepted, 'seen'> & { seeing: Promise<Seen | null> };

export function drawCalls(draws: Dice, keys: readonly string[], submissions: number): Call[] {
  const calls: Call[] = [];
  for (let left = submissions; left > 0; left -= calls.at(-1)!.orders.length) {
    const length = Math.min(draws.next() < 0.15 ? draws.whole(2, 8) : 1, left);
    const orders = Array.from({ length }, (): Order => {
      const luck = draws.next();
      return {
        program: draw(draws),
        webhook: draws.next() < 0.5,
        // Some while they wait, some while they run, and some after their end.
        cancel_after_ms: draws.next() < 0.15 ? draws.whole(0, draws.pick([0, 200, 2_000])) : null,
        seen_by: luck < 0.3 ? 'a stream' : luck < 0.5 ? 'a call that waits' : 'nobody',
      };
    });
    calls.push({ key: draws.pick(keys), orders });
  }
  return calls;
}

function draw(random: Dice): Program {
  const all = PROGRAMS.reduce((sum, { weight }) => sum + weight, 0);
  let left = random.next() * all;
  for (const program of PROGRAMS) {
    left -= program.weight;
    if (left < 0) return program;
  }
  return PROGRAMS[0]!;
}

export async function submitAndCancel(
  service: Service,
  receiver: Receiver,
  { key, orders }: Call,
): Promise<Submitted[]> {
  const bodies = orders.map((order) => bodyOf(receiver, order));
  const ids = await submitUntilAccepted(service, key, bodies);
  return Promise.all(
    orders.map(async ({ program, cancel_after_ms, seen_by }, n) => {
      const id = ids[n]!;
      const seeing = see(service, key, id, seen_by);
      const cancelled = await cancelAfter(service, key, id, cancel_after_ms);
      const webhook_secret = bodies[n]!.webhook_secret ?? null;
      return { id, program: program.name, webhook_secret, cancelled, seeing };
    }),
  );
}

async function cancelAfter(service: Service, key: string, id: string, after_ms: number | null) {
  if (after_ms === null) return false;
  await wait(after_ms);
  const init = { method: 'DELETE', headers: { 'x-api-key': key } };
  return answered(service, `/api/submissions/${id}`, init, ({ status }) =>
    status === 200 || status === 409 ? status === 200 : null,
  );
}

async function see(
  service: Service,
  key: string,
  id: string,
  by: Order['seen_by'],
): Promise<Seen | null> {
  const headers = { 'x-api-key': key };
  if (by === 'nobody') return null;
  if (by === 'a stream') {
    const path = `/api/result/${id}/events`;
    return follow(async (after) => {
      for (let n = 0; ; n += 1) {
        const { origin } = service.webs[n % service.webs.length]!;
        const init = { headers: { ...headers, 'last-event-id': `${after}` } };
        const response = await fetch(`${origin}${path}`, init).catch(() => null);
        if (response?.status === 200 || response?.status === 204) return response;
        await response?.body?.cancel();
        await wait(100);
      }
    });
  }
  return answered(service, `/api/result/${id}?wait=true`, { headers }, ({ status, said }) =>
    status === 200 && hasEnded(said.status!) ? { status: said.status!, wrong: [] } : null,
  );
}

type Body = { idempotency_key: string; webhook_secret?: string };

function bodyOf(receiver: Receiver, { program, webhook }: Order): Body {
  const { language, code, stdin, expected_output, limits } = program;
  const idempotency_key = randomUUID();
  return {
    idempotency_key,
    ...{ language, code, stdin, expected_output, limits },
    ...{ args: [`token-${idempotency_key}`] },
    ...(webhook && {
      webhook_url: `https://127.0.0.1:${receiver.port}/results`,
      webhook_secret: `secret ${randomUUID()}`,
    }),
  };
}

/** Asks with the same keys until an answer has all ids. */
async function submitUntilAccepted(
  service: Service,
  key: string,
  bodies: readonly Body[],
): Promise<string[]> {
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const accepted = ({ status, said }: Answer): string[] | null => {
    const ids = [said].flat().map(({ id }) => id);
    return status === 202 && ids.every((id) => id !== undefined) ? (ids as string[]) : null;
  };
  if (bodies.length > 1) {
    const init = { method: 'POST', body: JSON.stringify(bodies), headers };
    return answered(service, '/api/submissions', init, accepted);
  }
  const [{ idempotency_key, ...body }] = bodies as [Body];
  const init = {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { ...headers, 'idempotency-key': idempotency_key },
  };
  return answered(service, '/api/submit', init, accepted);
}

type Said = { id?: string; status?: Status };
type Answer = { status: number; said: Said & readonly Said[] };

/**
 * Calls one web after the other until there is an answer that is wanted. Of the others only these are expected: 503, a wait
 * that is over, and a batch of which a part was rejected.
 */
async function answered<T>(
  service: Service,
  path: string,
  init: RequestInit,
  wanted: (answer: Answer) => T | null,
): Promise<T> {
  for (let n = 0; ; n += 1) {
    const web = service.webs[n % service.webs.length]!;
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const answer = await fetch(`${web.origin}${path}`, { ...init, signal });
      const said = (await answer.json()) as Answer['said'];
      const { status } = answer;
      const found = wanted({ status, said });
      if (found !== null) return found;
      const unexpected = JSON.stringify(said);
      if (![200, 202, 503].includes(status) || unexpected.includes('invalid_request'))
        throw new Rejected(`${status} ${unexpected}`);
    } catch (error) {
      if (error instanceof Rejected) throw error;
    }
    await wait(100 + Math.random() * 200);
  }
}

class Rejected extends Error {}
