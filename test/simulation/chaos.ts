/**
 * The whole service under load while everything is harmed: `make chaos SEED=7 [SUBMISSIONS=2000] [SEEDS=20]`.
 *
 * Clients submit programs of all kinds to two webs, one by one and in batches. Each client asks again with the same
 * Idempotency-Key until it has an id. Some submissions are cancelled, and for some a caller follows the event stream or waits.
 * At the same time workers, launchers, webs and PostgreSQL are killed, stopped and cut off, at moments that the seed
 * determines. (The seed does not determine the machine's own timing: the same seed makes the same harms and not the same
 * interleaving.) When all submissions have ended, the checks run.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db, isAway } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { authority, openReceiver, type Receiver } from '../webhooks/receiver.ts';
import { check, type Facts } from './checks.ts';
import { drawCalls, type Submitted, submitAndCancel } from './clients.ts';
import { type Dice, dice } from './dice.ts';
import { startHarm } from './harm.ts';
import { PROGRAMS } from './programs.ts';
import { type Service, startService } from './service.ts';
import { watchRuns } from './watch.ts';

export type ChaosOptions = {
  seed: number;
  submissions: number;
  workers?: number;
  webs?: number;
  keep?: boolean;
  say?: (line: string) => void;
};

export type ChaosReport = {
  wrong: string[];
  facts: Facts;
  harms: Record<string, number>;
  watched: { looks: number; seen: number };
  seconds: number;
};

const CLIENTS = 24;

export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const { seed, submissions, say = () => {} } = options;
  const began = performance.now();
  const teardowns: (() => unknown)[] = [];
  const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
  const random = dice(seed);
  const folder = await mkdtemp(join(tmpdir(), `runledger-chaos-${seed}-`));
  try {
    const ca_file = join(folder, 'authority.pem');
    await writeFile(ca_file, authority.pem);
    const receiver = await openReceiver(moody(random.fork('receiver')));
    t.teardown(() => receiver[Symbol.asyncDispose]());
    const { workers = 5, webs = 2 } = options;
    const env = { RUNLEDGER_PYTHON_ZYGOTE: 'off' };
    const service = await startService(t, { folder, webs, workers, ca_file, env });
    const keys = await makeKeys(service);
    say(`seed ${seed}: ${webs} webs, ${workers} workers; a quiet run first`);

    const accepted = await quietRun(service, keys, receiver);
    const watch = watchRuns();
    const harms: Record<string, number> = {};
    const harm = startHarm(service, random.fork('harm'), (name) => {
      harms[name] = (harms[name] ?? 0) + 1;
    });
    const draws = random.fork('programs');
    const calls = drawCalls(draws, keys, submissions);
    const clients = Array.from({ length: CLIENTS }, async () => {
      for (let call = calls.pop(); call; call = calls.pop())
        accepted.push(...(await submitAndCancel(service, receiver, call)));
    });
    await Promise.all(clients);
    say(`all ${submissions} accepted after ${Math.round((performance.now() - began) / 1000)} s`);
    await untilOpen(service, say, submissions / 4);
    await harm.stop();
    await allEnded(service, say);
    const watched = watch.stop();
    const found = await Promise.all(
      accepted.map(async ({ seeing, ...one }) => ({ ...one, seen: await seeing })),
    );
    const { wrong, facts } = await check(service, found, receiver.got);
    for (const one of watched.twice)
      wrong.push(`ran twice at once: ${one}: ${await historyOf(service, one)}`);
    if (watched.seen === 0) wrong.push('no run was ever seen: the watch sees nothing');
    const seconds = Math.round((performance.now() - began) / 1000);
    if (wrong.length > 0) options.keep = true;
    return { wrong, facts, harms, watched, seconds };
  } finally {
    for (const work of teardowns) await work();
    if (options.keep) say(`logs are in ${folder}`);
    else await rm(folder, { recursive: true, force: true });
  }
}

async function makeKeys(service: Service): Promise<string[]> {
  const db = connect(service.database.urls.owner, { name: 'chaos', max: 1 });
  await setTier(db, { name: 'limited', per_minute: 0, concurrent: 8 });
  await setTier(db, { name: 'free', per_minute: 0, concurrent: 0 });
  const keys: string[] = [];
  for (const [account, tier] of [
    ['a', 'limited'],
    ['b', 'limited'],
    ['c', 'free'],
    ['d', 'free'],
  ] as const) {
    const key = newSecret('rl');
    await createKey(db, { account, tier, prefix: 'rl', secret_digest: secretDigest(key) });
    keys.push(key);
  }
  await db.end();
  return keys;
}

/** Each program once, before anything is harmed. Here no verdict has an excuse. */
async function quietRun(service: Service, keys: string[], receiver: Receiver) {
  const accepted: Submitted[] = [];
  for (const program of PROGRAMS) {
    const order = { program, webhook: true, cancel_after_ms: null, seen_by: 'nobody' } as const;
    accepted.push(
      ...(await submitAndCancel(service, receiver, { key: keys[0]!, orders: [order] })),
    );
  }
  await allEnded(service, () => {});
  return accepted;
}

const allEnded = (service: Service, say: (line: string) => void) => untilOpen(service, say, 0);

/** Waits until at most so many submissions are open; for 0, deliveries and jobs must have ended, too. */
async function untilOpen(
  service: Service,
  say: (line: string) => void,
  at_most: number,
): Promise<void> {
  const db = connect(service.database.urls.owner, { name: 'chaos', max: 1 });
  const began = performance.now();
  let said_at = began;
  try {
    for (;;) {
      const row = await countOpen(db).catch((error) => {
        // The database is harmed like everything else.
        if (isAway(error)) return null;
        throw error;
      });
      if (row && row.open <= at_most && (at_most > 0 || row.deliveries + row.jobs === 0)) return;
      if (performance.now() - said_at > 10_000) {
        said_at = performance.now();
        say(`waiting for ${JSON.stringify(row)}`);
      }
      if (performance.now() - began > 600_000)
        throw new Error(`never ended: ${JSON.stringify(row)}`);
      await wait(100);
    }
  } finally {
    await db.end({ timeout: 1 });
  }
}

async function countOpen(db: Db) {
  const [row] = await db<{ open: number; deliveries: number; jobs: number }[]>`
    select (select count(*)::integer from runledger.submissions where status in ('pending', 'running')) as open,
      (select count(*)::integer from runledger.deliveries where status = 'waiting') as deliveries,
      (select count(*)::integer from graphile_worker.jobs) as jobs`;
  return row!;
}

/** The events of the submission with this token. */
async function historyOf(service: Service, token: string): Promise<string> {
  const key = token.slice('token-'.length, 'token-'.length + 36);
  const db = connect(service.database.urls.owner, { name: 'chaos', max: 1 });
  const rows = await db`
    select e.type, e.at, e.facts ->> 'reason' as reason, e.facts ->> 'consumer' as consumer
    from runledger.idempotency i join runledger.events e on e.stream = i.submission_id
    where i.key = ${key} order by e.version`;
  await db.end();
  return JSON.stringify(rows);
}

/** A receiver that is sometimes slow, sometimes fails, and sometimes hangs up. */
function moody(random: Dice): Parameters<typeof openReceiver>[0] {
  return (_got, response) => {
    const mood = random.next();
    if (mood < 0.1) response.writeHead(500).end();
    else if (mood < 0.15) response.destroy();
    else if (mood < 0.2) setTimeout(() => response.writeHead(200).end(), 700);
    else response.writeHead(204).end();
  };
}

if (import.meta.main) {
  const first = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6));
  const seeds = Number(process.env['SEEDS'] ?? 1);
  const submissions = Number(process.env['SUBMISSIONS'] ?? 2000);
  const say = (line: string) => console.log(line);
  for (let seed = first; seed < first + seeds; seed += 1) {
    const keep = Boolean(process.env['KEEP']);
    const { wrong, ...report } = await chaos({ seed, submissions, keep, say });
    say(`seed ${seed}: ${wrong.length === 0 ? 'all is well' : 'WRONG'} ${JSON.stringify(report)}`);
    for (const one of wrong.slice(0, 50)) say(`  ${one}`);
    if (wrong.length > 0) process.exitCode = 1;
  }
  process.exit();
}
