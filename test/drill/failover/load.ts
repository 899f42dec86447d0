/**
 * A small steady load from a client that does as README says: each request has an Idempotency-Key, and is sent again after a 503 or
 * a lost connection. It remembers every answer.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

const EVERY_MS = 600;
const IN_FLIGHT_MAX = 8;
const AGAIN_MS = 500;
/** Web waits 30 s for a result, and some seconds for its database. */
const HANGS_MS = 45_000;
const LOOK_MS = 200;
const MARK = 'failover-drill-';

export type Answered = { n: number; id: string; record: Record<string, unknown> | null };

export type Load = {
  /** By the id. Those without a record were accepted and not answered with a result yet. */
  readonly answered: ReadonlyMap<string, Answered>;
  /** Answers that no client should get. */
  readonly wrong: readonly string[];
  /** Answers by status; 0: a lost connection. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Programs that were seen to run, and those of which two ran at the same time. */
  readonly seen: ReadonlySet<string>;
  readonly twice: ReadonlySet<string>;
  /** The time of each result, and of the request that brought it. */
  readonly results: readonly { asked: number; at: number }[];
  /** A submission that runs for so long, and for which nobody waits. */
  long(seconds: number): Promise<string>;
  /** Sends no more. Settles when everything has its result. */
  stop(): Promise<void>;
};

export function startLoad(origin: string, key: string): Load {
  const answered = new Map<string, Answered>();
  const ids = new Map<number, string>();
  const wrong: string[] = [];
  const statuses = new Map<number, number>();
  const results: { asked: number; at: number }[] = [];
  const pending = new Set<Promise<void>>();
  let next = 0;
  let stopped = false;

  function note(n: number, id: string, record: Record<string, unknown> | null): void {
    if ((ids.get(n) ?? id) !== id) wrong.push(`${n} has two ids: ${ids.get(n)} and ${id}`);
    ids.set(n, id);
    const before = answered.get(id)?.record;
    if (before && record && before['stdout'] !== record['stdout'])
      wrong.push(`${id} has two results: ${before['stdout']} and ${record['stdout']}`);
    answered.set(id, { n, id, record: record ?? before ?? null });
  }

  async function ask(path: string, init: RequestInit = {}) {
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json', ...init.headers };
    const signal = AbortSignal.timeout(HANGS_MS);
    try {
      const answer = await fetch(origin + path, { ...init, headers, signal });
      const json = (await answer.json()) as Record<string, unknown>;
      count(answer.status);
      return { status: answer.status, json };
    } catch (error) {
      if ((error as Error).name === 'TimeoutError')
        wrong.push(`${path}: no answer in ${HANGS_MS} ms`);
      count(0);
      return { status: 0, json: {} };
    }
  }

  const count = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);

  async function submit(n: number, seconds: number, path: string): Promise<string> {
    const code = `import time\ntime.sleep(${seconds})\nprint('hello ${n}')`;
    const body = JSON.stringify({ language: 'python', code, args: [`${MARK}${n}-`] });
    const headers = { 'Idempotency-Key': crypto.randomUUID() };
    for (;;) {
      const asked = performance.now();
      const { status, json } = await ask(path, { method: 'POST', body, headers });
      const id = json['id'] as string;
      if (status === 200) results.push({ asked, at: performance.now() });
      if (status === 200 && json['status'] === 'completed') note(n, id, json);
      else if (status === 200 || status === 202 || status === 408) note(n, id, null);
      else if (status !== 0 && status !== 503) wrong.push(`${status}: ${JSON.stringify(json)}`);
      if (ids.has(n)) return ids.get(n)!;
      await wait(AGAIN_MS);
    }
  }

  async function resultOf(n: number, id: string): Promise<void> {
    while (answered.get(id)?.record == null) {
      const { status, json } = await ask(`/api/result/${id}?wait=true`);
      if (status === 200 && json['status'] !== 'pending' && json['status'] !== 'running')
        note(n, id, json);
      else if (![0, 200, 503].includes(status)) wrong.push(`${status}: ${JSON.stringify(json)}`);
      if (status !== 200) await wait(AGAIN_MS);
    }
  }

  function begin(work: (n: number) => Promise<void>): void {
    const one = work(next++);
    pending.add(one);
    void one.then(() => pending.delete(one));
  }

  const ticking = setInterval(() => {
    if (pending.size >= IN_FLIGHT_MAX) return;
    begin(async (n) => resultOf(n, await submit(n, 0.2, '/api/submit?wait=true')));
  }, EVERY_MS);
  const seen = new Set<string>();
  const twice = new Set<string>();
  const looking = (async () => {
    for (; !stopped; await wait(LOOK_MS))
      for (const [mark, programs] of running()) {
        seen.add(mark);
        if (programs > 1) twice.add(mark);
      }
  })();

  return {
    answered,
    wrong,
    statuses,
    seen,
    twice,
    results,
    long: (seconds) =>
      new Promise((resolve) => {
        begin(async (n) => {
          const id = await submit(n, seconds, '/api/submit');
          resolve(id);
          await resultOf(n, id);
        });
      }),
    async stop() {
      clearInterval(ticking);
      while (pending.size > 0) await Promise.all(pending);
      stopped = true;
      await looking;
    },
  };
}

/** How many programs run now, by their marks. A program has its mark as an argument. */
function running(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const pid of readdirSync('/proc').filter((name) => /^\d/.test(name))) {
    const mark = markOf(pid);
    if (mark) counts.set(mark, (counts.get(mark) ?? 0) + 1);
  }
  return counts;
}

function markOf(pid: string): string | undefined {
  try {
    return new RegExp(`${MARK}\\d+-`).exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.[0];
  } catch {
    return undefined;
  }
}
