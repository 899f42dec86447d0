/**
 * A steady load over two webs by way of what a router does: a new connection for each request, and another web where one
 * takes no connection. A connection that was reset is counted, and its request sent again: each has an Idempotency-Key or
 * only reads. Whatever else goes wrong with a request is written down.
 *
 * Most submissions are sent one by one. Some go in batches, some are cancelled, and some are followed by their event stream.
 */
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { hasEnded, type Status } from '../../src/domain/statuses.ts';
import { follow } from './follow.ts';

export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Record<string, unknown>;
};

export type Load = {
  /** How many submissions have their result. */
  readonly done: number;
  /** Connections that were reset before any byte of an answer, so far. */
  readonly resets: number;
  /** Each client pauses so long after each of its tasks. */
  pause(ms: number): void;
  stop(): Promise<{
    results: Map<string, Record<string, unknown>>;
    wrong: string[];
    busy: number;
  }>;
};

/** A request that waits for a result may be silent for 30 s. */
const PATIENCE_MS = 120_000;
const CODE = 'import sys, time\ntime.sleep(float(sys.argv[1]))\nprint(sys.argv[2])';

export function startLoad(origins: readonly string[], key: string, clients: number): Load {
  const results = new Map<string, Record<string, unknown>>();
  const wrong: string[] = [];
  let running = true;
  let turn = 0;
  let busy = 0;
  let resets = 0;
  let pause_ms = 0;

  /** Asks until somebody answers with something else than 503; each of those has to say when to come back. */
  async function ask(method: string, path: string, headers: Record<string, string>, body = '') {
    for (let refused = 0; ; ) {
      const origin = origins[turn++ % origins.length]!;
      try {
        const answer = await exchange(
          method,
          `${origin}${path}`,
          { 'x-api-key': key, ...headers },
          body,
        );
        if (answer.status !== 503) return answer;
        busy += 1;
        if (!answer.headers['retry-after'])
          wrong.push(`${method} ${path}: 503 without Retry-After`);
        await wait(50);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'ECONNREFUSED' && code !== 'ECONNRESET') throw error;
        if (code === 'ECONNRESET') resets += 1;
        refused += 1;
        if (refused % origins.length === 0) await wait(20);
        if (refused > 500) throw new Error('no web takes connections');
      }
    }
  }

  const json = { 'content-type': 'application/json' };

  function bodyOf(n: number) {
    const word = randomUUID();
    return { word, body: { language: 'python', code: CODE, args: [`${(n % 5) * 0.05}`, word] } };
  }

  async function resultOf(id: string, word: string, first?: Answer): Promise<void> {
    let answer = first ?? (await ask('GET', `/api/result/${id}?wait=true`, {}));
    while ([202, 408].includes(answer.status) || isOpen(answer)) {
      answer = await ask('GET', `/api/result/${id}?wait=true`, {});
    }
    const { body: record } = answer;
    if (answer.status !== 200) wrong.push(`${id}: ${answer.status} ${JSON.stringify(record)}`);
    else if (record['stdout'] !== `${word}\n`) wrong.push(`${id}: ${JSON.stringify(record)}`);
    results.set(id, record);
  }

  async function submission(n: number, query = ''): Promise<{ answer: Answer; word: string }> {
    const { word, body } = bodyOf(n);
    const headers = { ...json, 'idempotency-key': randomUUID() };
    const answer = await ask('POST', `/api/submit${query}`, headers, JSON.stringify(body));
    return { answer, word };
  }

  async function one(n: number): Promise<void> {
    const { answer, word } = await submission(n, n % 2 === 0 ? '?wait=true' : '');
    await resultOf(`${answer.body['id']}`, word, answer);
  }

  async function batch(n: number): Promise<void> {
    const all = [n, n + 1, n + 2].map(bodyOf);
    const items = all.map(({ body }) => ({ ...body, idempotency_key: randomUUID() }));
    const { status, body } = await ask('POST', '/api/submissions', json, JSON.stringify(items));
    if (status !== 202) return void wrong.push(`a batch: ${status} ${JSON.stringify(body)}`);
    const ids = (body as unknown as { id: string }[]).map(({ id }) => id);
    await Promise.all(ids.map((id, at) => resultOf(id, all[at]!.word)));
  }

  async function cancelled(n: number): Promise<void> {
    const { answer, word } = await submission(n);
    const id = `${answer.body['id']}`;
    const { status, body } = await ask('DELETE', `/api/submissions/${id}`, {});
    if (status === 409) return resultOf(id, word);
    if (status !== 200) return void wrong.push(`${id}: DELETE ${status} ${JSON.stringify(body)}`);
    const { body: record } = await ask('GET', `/api/result/${id}?wait=true`, {});
    if (record['status'] !== 'cancelled') wrong.push(`${id}: cancelled, ${JSON.stringify(record)}`);
    results.set(id, record);
  }

  async function followed(n: number): Promise<void> {
    const { answer, word } = await submission(n);
    const id = `${answer.body['id']}`;
    const seen = await follow(async (after) => {
      for (;;) {
        const url = `${origins[turn++ % origins.length]!}/api/result/${id}/events`;
        const headers = { 'x-api-key': key, 'last-event-id': `${after}` };
        const response = await fetch(url, { headers }).catch(() => null);
        if (response?.ok) return response;
        await wait(20);
      }
    });
    if (seen.status !== 'completed') wrong.push(`${id}: its stream ended with ${seen.status}`);
    wrong.push(...seen.wrong.map((what) => `${id}: its stream: ${what}`));
    await resultOf(id, word);
  }

  const KINDS = [one, one, one, one, one, batch, cancelled, followed];

  const lanes = Array.from({ length: clients }, async (_, lane) => {
    for (let n = lane; running; n += 1) {
      await KINDS[n % KINDS.length]!(n).catch(
        (error) => void wrong.push(`a request failed: ${error.code ?? ''} ${error.message}`),
      );
      if (pause_ms > 0) await wait(pause_ms);
    }
  });
  return {
    get done() {
      return results.size;
    },
    get resets() {
      return resets;
    },
    pause(ms) {
      pause_ms = ms;
    },
    async stop() {
      running = false;
      await Promise.all(lanes);
      return { results, wrong, busy };
    },
  };
}

const isOpen = ({ status, body }: Answer) => status === 200 && !hasEnded(body['status'] as Status);

function exchange(
  method: string,
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = request(url, {
      method,
      headers: { ...headers, connection: 'close' },
      agent: false,
    });
    req.setTimeout(PATIENCE_MS, () => req.destroy(new Error('no answer')));
    req.on('error', reject);
    req.on('response', (res) => {
      const parts: Buffer[] = [];
      res.on('error', reject);
      res.on('data', (part) => parts.push(part));
      res.on('end', () => {
        const text = Buffer.concat(parts).toString();
        resolve({ status: res.statusCode!, headers: res.headers, body: JSON.parse(text || '{}') });
      });
    });
    req.end(body);
  });
}
