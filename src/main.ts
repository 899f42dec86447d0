/**
 * Composes the service. `serve` is everything on one machine: PostgreSQL where there is none, the
 * schema, a first key, and web and worker as processes of their own. `runPart` is one of the two.
 * Stops go in reverse order: worker and web, then PostgreSQL.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { newSecret, secretDigest } from './access/secret.ts';
import { databaseAddress } from './config/database_tls.ts';
import { type Config, loadConfig } from './config.ts';
import { connect } from './db.ts';
import { environmentFor, holdsForeign, type Part } from './environment.ts';
import { BY_NAME } from './languages/shared/registry.ts';
import { CANNOT_RUN, type Child, keepRunning, type Ready } from './local/child.ts';
import { delegatedScope } from './local/delegated.ts';
import { type Embedded, keepServer, startEmbedded } from './local/embedded.ts';
import { AlreadyRunning } from './local/postgres.ts';
import { localSecrets } from './local/secrets.ts';
import { createLog } from './log.ts';
import { CannotRun, startPart } from './parts/part.ts';
import { createKey, listKeys } from './store/keys.ts';
import { migrate } from './store/migrate.ts';

const CLI = fileURLToPath(new URL('cli/main.ts', import.meta.url));
/** Beyond the grace that running work has: to write its outcome and close connections. */
const CLOSING_MS = 3_000;
const LINGER_MS = 500;
/**
 * For web and worker, here and in the Procfile: the collector looks through what is young more often and briefly. With
 * Node's own 16 MiB each look is a pause of up to ten milliseconds, for everyone who waits.
 */
const NODE_FLAGS = ['--max-semi-space-size=4'];

export type Say = (line: string) => void;

/** One part, until it is told to stop; answers the exit status. */
export async function runPart(part: Part, say: Say): Promise<number> {
  if (holdsForeign(part, process.env)) beginAnewWithout(part);
  const config = loadConfig();
  const log = createLog({ level: config.log_level, part });
  const stopped = stopAsked();
  try {
    const running = await startPart(part, { config, log });
    log.info({ address: running.address }, 'started');
    process.send?.({ address: running.address } satisfies Ready);
    log.info({ reason: await stopped }, 'stopping');
    await running.stop();
    log.info('stopped');
    return 0;
  } catch (error) {
    const remedy = error instanceof CannotRun ? error.remedy : null;
    // Under `serve` a person reads; elsewhere a platform collects the log.
    if (process.connected)
      say(`${part}: ${(error as Error).message}${remedy ? `\n  ${remedy}` : ''}`);
    else log.fatal({ err: error, remedy }, 'cannot run');
    return remedy ? CANNOT_RUN : 1;
  } finally {
    if (process.connected) process.disconnect?.();
    // Everything is closed; should something still hold the process, it is not worth waiting for.
    setTimeout(() => process.exit(), LINGER_MS).unref();
  }
}

/** A variable can be read in /proc for as long as its process lives, deleted or not. */
function beginAnewWithout(part: Part): void {
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(
    process.execPath,
    args,
    environmentFor(part, process.env) as Record<string, string>,
  );
}

/** The first of: a signal that asks for it, or the end of the process that keeps us. */
function stopAsked(): Promise<string> {
  const { promise, resolve: asked } = Promise.withResolvers<string>();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => asked(signal));
  process.on('disconnect', () => asked('the end of the process that started this one'));
  return promise;
}

/** Everything on this machine, until it is told to stop; answers the exit status. */
export async function serve(say: Say, answer: Say): Promise<number> {
  const config = loadConfig();
  const stopped = stopAsked();
  const parts: Child[] = [];
  let embedded: KeptEmbedded | null = null;
  try {
    embedded = config.database_url ? null : await openEmbedded(config, say);
    const url = config.database_url ?? embedded!.urls.owner;
    await timed(say, 'schema', () => migrate(databaseAddress(config, url)));
    const key = await firstKey(config, url);
    const env = { ...process.env, ...(await ownSecrets(config)), ...embeddedUrls(embedded) };
    for (const part of ['web', 'worker'] as const) parts.push(keepPart(part, env, say));
    const ready = Promise.all(parts.map((part) => part.first));
    const started = await Promise.race([ready, stopped]);
    if (typeof started === 'string') return 0;
    // Without web there is nothing to serve; without a worker submissions wait, and doctor says why.
    const [web] = started;
    if (web!.kind === 'ended') return 1;
    introduce(config, web!.address!, key, answer);
    say(`stopping (${await stopped})`);
    return 0;
  } catch (error) {
    if (!(error instanceof AlreadyRunning)) throw error;
    say(`a runledger already runs on ${config.state_dir} (${error.message})`);
    say('stop that one first, or set RUNLEDGER_STATE_DIR to another folder');
    return 1;
  } finally {
    // Both at once: their graces do not add up. The database goes last.
    await Promise.all(parts.map((part) => part.stop(config.shutdown_grace_ms + CLOSING_MS)));
    await embedded?.stop();
  }
}

type KeptEmbedded = Embedded & { stop(): Promise<void> };

async function openEmbedded(config: Config, say: Say): Promise<KeptEmbedded> {
  const embedded = await timed(say, `PostgreSQL in ${config.state_dir}`, () =>
    startEmbedded(config),
  );
  const stop = keepServer(embedded, () => startEmbedded(config), say);
  return { ...embedded, stop };
}

async function timed<T>(say: Say, what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const done = await work();
  say(`${what}: ready after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return done;
}

/** The first key of an installation that has none; later starts know only its digest. */
async function firstKey(config: Config, url: string): Promise<string | null> {
  const db = connect(databaseAddress(config, url), { name: 'runledger serve', max: 1 });
  try {
    if ((await listKeys(db)).length > 0) return null;
    const secret = newSecret(config.key_prefix);
    const secret_digest = secretDigest(secret);
    await createKey(db, {
      account: 'first',
      tier: 'beta',
      prefix: config.key_prefix,
      secret_digest,
    });
    return secret;
  } finally {
    await db.end({ timeout: 5 });
  }
}

/** Keys that this machine makes for itself where the environment has none. */
async function ownSecrets(config: Config): Promise<NodeJS.ProcessEnv> {
  const kept = await localSecrets(resolve(config.state_dir));
  const names = ['RUNLEDGER_WEBHOOK_KEYS', 'RUNLEDGER_DIGEST_KEY', 'RUNLEDGER_SEAL_KEY'] as const;
  return Object.fromEntries(names.map((name) => [name, process.env[name] || kept[name]]));
}

const embeddedUrls = (embedded: Embedded | null): NodeJS.ProcessEnv =>
  embedded
    ? {
        DATABASE_URL: embedded.urls.owner,
        RUNLEDGER_WEB_DATABASE_URL: embedded.urls.web,
        RUNLEDGER_WORKER_DATABASE_URL: embedded.urls.worker,
      }
    : {};

function keepPart(part: Part, env: NodeJS.ProcessEnv, say: Say): Child {
  // A person watches this terminal: only what needs attention.
  const own = environmentFor(part, { RUNLEDGER_LOG_LEVEL: 'warn', ...env });
  // Both on one machine: the worker's counts are on the port after web's.
  const port = Number(own['RUNLEDGER_METRICS_PORT'] || 0);
  if (part === 'worker' && port > 0) own['RUNLEDGER_METRICS_PORT'] = String(port + 1);
  return keepRunning({
    command: [
      ...(part === 'worker' ? delegatedScope() : []),
      process.execPath,
      ...NODE_FLAGS,
      CLI,
      part,
    ],
    env: own,
    onEnd: (code, again_in_ms) => {
      const next = again_in_ms === null ? 'not started again' : `again in ${again_in_ms} ms`;
      say(`${part} ended with status ${code}, ${next}`);
    },
  });
}

/** The three lines that a newcomer needs. */
function introduce(config: Config, address: string, key: string | null, answer: Say): void {
  const again =
    'shown at the first start; `npx runledger keys create --account NAME` makes another';
  const header = config.tls === 'proxy' ? " -H 'X-Forwarded-Proto: https'" : '';
  const [first = ''] = config.languages;
  const hello = JSON.stringify({ language: first, code: BY_NAME.get(first)?.hello });
  answer(`address  ${address}`);
  answer(`key      ${key ?? again}`);
  answer(
    `try      curl -sS -H 'X-API-Key: ${key ?? 'YOUR_KEY'}' -H 'Content-Type: application/json'${header} -d '${hello}' '${address}/api/submit?wait=true'`,
  );
}
