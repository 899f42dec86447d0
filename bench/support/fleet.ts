/** Web and worker processes on a PostgreSQL of their own, as many as somebody likes, and a client. */
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { realWorker } from '../../test/http/support/real_worker.ts';
import { webProcess } from '../../test/http/support/web_process.ts';
import { ownServer } from '../../test/support/database.ts';
import { type LeanClient, leanClient, postRequest } from './lean_client.ts';
import { KEEPS_LOG, recycleLog } from './recycled_log.ts';

type Test = { teardown(work: () => unknown): void };

export type BenchFleet = {
  readonly owner: Db;
  /** Waits for the result, from one web process after the other. The answer is checked. `accounts`: how many take turns. */
  hello(accounts?: number): Promise<{ wall_time: number }>;
};

/** How many accounts a fleet has. */
export const FLEET_ACCOUNTS = 5;

let serial = 0;

export async function startFleet(
  t: Test,
  { webs, workers, slots }: { webs: number; workers: number; slots: number },
  env: Record<string, string> = {},
): Promise<BenchFleet> {
  const server = await ownServer(t, { shared_buffers: '512MB', max_wal_size: '4GB', ...KEEPS_LOG });
  await recycleLog(server.superuser_url);
  const owner = connect(server.url, { name: 'bench', max: 2 });
  t.teardown(() => owner.end({ timeout: 1 }));
  await setTier(owner, { name: 'bench', per_minute: 0, concurrent: 0 });
  const keys: string[] = [];
  for (let n = 0; n < FLEET_ACCOUNTS; n += 1) {
    const key = newSecret('rl');
    const of_key = { account: `bench ${n}`, tier: 'bench', prefix: 'rl' };
    await createKey(owner, { ...of_key, secret_digest: secretDigest(key) });
    keys.push(key);
  }
  const web = () =>
    webProcess(t, server, {
      RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64'),
      RUNLEDGER_LOG_LEVEL: 'warn',
      ...env,
    });
  const ports = (await Promise.all(Array.from({ length: webs }, web))).map(({ port }) => port);
  const worker = () =>
    realWorker(t, server, {
      RUNLEDGER_SLOTS: String(slots),
      RUNLEDGER_LANGUAGES: 'python',
      ...env,
    });
  const refused = await Promise.all(Array.from({ length: workers }, worker));
  for (const reason of refused) if (reason) throw new Error(reason);
  const idle = ports.map((): LeanClient[] => []);
  t.teardown(() => {
    for (const client of idle.flat()) client.close();
  });
  let turn = 0;
  return {
    owner,
    async hello(accounts = 1) {
      turn = (turn + 1) % ports.length;
      const mine = idle[turn]!;
      const client = mine.pop() ?? (await leanClient(ports[turn]!));
      const code = `print("hello")\n# ${++serial}\n`;
      const key = keys[serial % accounts]!;
      const request = postRequest(key, '/api/submit?wait=true', { language: 'python', code });
      const { status, body } = await client.ask(request);
      mine.push(client);
      if (status !== 200) throw new Error(`${status}: ${body}`);
      const record = JSON.parse(body);
      if (record.stdout !== 'hello\n') throw new Error(body);
      return record;
    },
  };
}
