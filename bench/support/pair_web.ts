/**
 * A web process of one tree, for pair_host.ts, without a sandbox: what a submission costs beside its execution. With a
 * worker, its executions take no time, and each request waits for its end. Without one, each request is answered at once.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type * as Secret from '../../src/access/secret.ts';
import type * as Database from '../../src/db.ts';
import type * as Keys from '../../src/store/keys.ts';
import type * as WebProcess from '../../test/http/support/web_process.ts';
import type * as TestDatabase from '../../test/support/database.ts';
import { type LeanClient, leanClient, submitRequest } from './lean_client.ts';

const MOST_CLIENTS = 64;
const CAPACITY = '10000000';

export type PairWeb = { submit(client: number): Promise<void>; stop(): Promise<void> };

export async function startWeb(
  root: string,
  { has_worker }: { has_worker: boolean },
): Promise<PairWeb> {
  const load = async <T>(file: string) => (await import(join(root, file))) as T;
  const { newSecret, secretDigest } = await load<typeof Secret>('src/access/secret.ts');
  const { connect } = await load<typeof Database>('src/db.ts');
  const { createKey, setTier } = await load<typeof Keys>('src/store/keys.ts');
  const { webProcess } = await load<typeof WebProcess>('test/http/support/web_process.ts');
  const { ownServer } = await load<typeof TestDatabase>('test/support/database.ts');

  const teardowns: (() => unknown)[] = [];
  const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
  const server = await ownServer(t, { shared_buffers: '512MB', max_wal_size: '4GB' });
  const db = connect(server.urls.owner, { name: 'runledger bench', max: 1 });
  await setTier(db, { name: 'bench', per_minute: 0, concurrent: 0 });
  const env = { RUNLEDGER_LOG_LEVEL: 'warn', RUNLEDGER_QUEUE_CAPACITY: CAPACITY };
  const web = await webProcess(t, server, env);
  if (has_worker) {
    const worker = fork(join(root, 'bench/support/empty_worker.ts'), {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: server.urls.worker,
        RUNLEDGER_SLOTS: '24',
        RUNLEDGER_QUEUE_CAPACITY: CAPACITY,
      },
    });
    t.teardown(async () => {
      worker.kill('SIGTERM');
      await once(worker, 'exit');
    });
    await once(worker, 'message');
  }
  const clients: LeanClient[] = [];
  for (let n = 0; n < MOST_CLIENTS; n++) {
    const secret = newSecret('rl');
    const key = {
      account: `bench ${n}`,
      tier: 'bench',
      prefix: 'rl',
      secret_digest: secretDigest(secret),
    };
    await createKey(db, key);
    const path = has_worker ? '/api/submit?wait=true' : '/api/submit';
    clients.push(await leanClient(web.port, submitRequest(secret, path)));
  }
  await db.end();
  return {
    async submit(client) {
      const { status, body } = await clients[client]!.ask();
      const given = JSON.parse(body);
      const is_right = has_worker ? status === 200 && given.verdict === 'AC' : status === 202;
      if (!is_right || !given.id) throw new Error(`${status}: ${body}`);
    },
    async stop() {
      for (const client of clients) client.close();
      for (const work of teardowns) await work();
    },
  };
}
