/**
 * `./runledger serve`: everything on one machine. It finds out whether programs can run here, starts PostgreSQL (unless
 * DATABASE_URL is set), migrates the schema, runs web and worker as child processes, and creates the first key. It stops
 * them in reverse order: web and worker together, then PostgreSQL.
 */
import { join, resolve } from 'node:path';
import { parse } from 'valibot';
import { newSecret, secretDigest } from '../access/secret.ts';
import { databaseAddress } from '../config/database_tls.ts';
import { secret } from '../config/parsers.ts';
import { type Config, loadConfig } from '../config.ts';
import { connect, type Db } from '../db.ts';
import { environmentFor, type ProcessName } from '../environment.ts';
import { BY_NAME } from '../languages/common/registry.ts';
import { type Child, endText, keepRunning } from '../local/child.ts';
import {
  type KeptEmbedded,
  keepEmbedded,
  keysOfAnotherLog,
  requireNoService,
} from '../local/embedded.ts';
import { operatorName } from '../local/operator.ts';
import { AlreadyRunning, STOP_MS } from '../local/postgres.ts';
import { claimKey, hasUsedKey, localSecrets, readLocalSecrets } from '../local/secrets.ts';
import { createKey, listKeys } from '../store/keys.ts';
import { logDatabase } from '../store/log_database.ts';
import { migrate } from '../store/migrate.ts';
import { setRetention } from '../store/retention.ts';
import { schemaOf } from '../store/schema_version.ts';
import { giveBackMemory } from './give_back_memory.ts';
import { withinOpenFiles } from './open_files.ts';
import { chooseIsolation, SCOPE } from './own_code.ts';
import { withPooling } from './process.ts';
import { EXIT_AFTER_MS, stopRequested, stopTakesMs } from './stop_request.ts';

const CLI = join(import.meta.dirname, '../cli/main.js');
/**
 * A smaller young generation: the garbage collector runs more often, but each pause is short. With Node's default of
 * 16 MiB a pause takes up to 10 ms, and every waiting request waits for it.
 */
export const NODE_FLAGS = ['--max-semi-space-size=4'];

type Print = (line: string) => void;

/** A stop was requested during the start. */
class StoppedEarly extends Error {}

/** Runs until it is asked to stop, and returns the exit status. `answer` prints the address, the key and an example. */
export async function serve(say: Print, answer: Print): Promise<number> {
  const config = await withPooling(withinOpenFiles(loadConfig()), 'owner');
  if (!config.database_url) requireNoService(config);
  const stopped = stopRequested();
  const stopping = new AbortController();
  const { signal } = stopping;
  void stopped.then((reason) => {
    stopping.abort(new StoppedEarly(reason));
    // Whatever it still waits for. PostgreSQL ends with this process.
    setTimeout(() => process.exit(1), stopTakesMs(config) + STOP_MS).unref();
  });
  const unlessStopped = <T>(step: Promise<T>): Promise<T> =>
    Promise.race([
      step,
      stopped.then(() => {
        throw signal.reason;
      }),
    ]);
  const children: Child[] = [];
  let embedded: KeptEmbedded | null = null;
  const choice = await chooseIsolation(config);
  if (choice.kind === 'none') {
    say(`this machine cannot run programs: ${choice.problem}`);
    // The embedded database has no other worker, so nothing would ever run.
    if (!config.database_url) return 1;
  }
  if (choice.kind === 'degraded')
    say(`degraded isolation, for your own code only: ${choice.missing}`);
  try {
    embedded = config.database_url
      ? null
      : await timed(say, `PostgreSQL in ${config.state_dir}`, () =>
          keepEmbedded(config, { say, signal, creates: 'first' }),
        );
    const url = config.database_url ?? embedded!.urls.owner;
    if (!embedded) await unlessStopped(requireLogOfKey(config, url));
    await timed(say, 'schema', () => unlessStopped(migrate(databaseAddress(config, url))));
    const keys = await localKeys(config);
    if (!embedded) await unlessStopped(requireOnlyLogOfKey(config, url));
    await unlessStopped(withOwner(config, url, (db) => setRetention(db, config, operatorName())));
    const env = {
      ...process.env,
      ...keys,
      ...embeddedUrls(embedded),
      ...(choice.kind === 'degraded' && { RUNLEDGER_ISOLATION: 'rlimits' }),
    };
    for (const name of ['web', 'worker'] as const) children.push(startChild(name, env, say));
    // Without web there is nothing to serve. Without a worker submissions wait, and the worker has said why.
    const [web, worker] = children.map((child) => child.first);
    const started = await unlessStopped(web!);
    if (started.kind === 'ended') return 1;
    await unlessStopped(worker!);
    // Only now, and to its end: a start that ends early would store a key that nobody has seen.
    const key = await withOwner(config, url, (db) => firstKey(config, db));
    introduce(config, started.address!, key, answer);
    giveBackMemory();
    say(`stopping (${await stopped})`);
    return 0;
  } catch (error) {
    if (error instanceof StoppedEarly) return 0;
    if (!(error instanceof AlreadyRunning)) throw error;
    say(`a runledger already runs on ${config.state_dir} (${error.message})`);
    say('stop that one first, or set RUNLEDGER_STATE_DIR to another folder');
    return 1;
  } finally {
    // Both at the same time, so that their grace periods don't add up. The database stops last.
    await Promise.all(children.map((child) => child.stop(stopTakesMs(config))));
    await embedded?.stop();
    // Of what started it with a channel. Open, it would keep this process alive.
    if (process.connected) process.disconnect?.();
    // A step of the start that goes on has nobody who waits for it.
    if (signal.aborted) setTimeout(() => process.exit(), EXIT_AFTER_MS).unref();
  }
}

async function timed<T>(say: Print, name: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const done = await work();
  say(`${name}: ready after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return done;
}

async function withOwner<T>(config: Config, url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = connect(databaseAddress(config, url), { name: 'runledger serve', max: 1 });
  try {
    return await work(db);
  } finally {
    await db.end({ timeout: 5 });
  }
}

/**
 * The keys of the folder have signed a log, and this database has none: it would get a second one under the same name and key.
 * The folder is asked first, because another start makes the tables before it makes the keys.
 */
async function requireLogOfKey(config: Config, url: string): Promise<void> {
  if (!(await usesFoldersKey(config)) || !(await hasUsedKey(resolve(config.state_dir)))) return;
  if ((await withOwner(config, url, schemaOf)) === 'none')
    throw keysOfAnotherDatabase('has no tables of Runledger', config);
}

/** The same with tables in which nothing is signed, and of two starts at once. A log that is signed refuses other keys itself. */
async function requireOnlyLogOfKey(config: Config, url: string): Promise<void> {
  if (!(await usesFoldersKey(config))) return;
  const { id, is_signed } = await withOwner(config, url, logDatabase);
  if (!(await claimKey(resolve(config.state_dir), id)) && !is_signed)
    throw keysOfAnotherDatabase('has no checkpoint', config);
}

const keysOfAnotherDatabase = (lacks: string, config: Config) =>
  keysOfAnotherLog(
    `the database of DATABASE_URL ${lacks}`,
    config,
    ', or set RUNLEDGER_SEAL_KEY to a key that has signed nothing',
  );

async function usesFoldersKey({ seal_key, state_dir }: Config): Promise<boolean> {
  if (!seal_key) return true;
  const stored = await readLocalSecrets(resolve(state_dir));
  return !!stored && Buffer.from(seal_key).equals(parse(secret, stored.RUNLEDGER_SEAL_KEY));
}

/** Creates a key if the installation has none. Null otherwise: only the digest of an existing key is stored. */
async function firstKey(config: Config, db: Db): Promise<string | null> {
  if ((await listKeys(db)).length > 0) return null;
  const secret = newSecret(config.key_prefix);
  const secret_digest = secretDigest(secret);
  await createKey(db, {
    account: 'first',
    tier: 'beta',
    prefix: config.key_prefix,
    secret_digest,
    operator: operatorName(),
  });
  return secret;
}

/** The keys of web: from the environment, or else generated once and stored in the state directory. */
async function localKeys(config: Config): Promise<NodeJS.ProcessEnv> {
  const stored = await localSecrets(resolve(config.state_dir), { for_new_data: true });
  const names = ['RUNLEDGER_WEBHOOK_KEYS', 'RUNLEDGER_DIGEST_KEY', 'RUNLEDGER_SEAL_KEY'] as const;
  return Object.fromEntries(names.map((name) => [name, process.env[name] || stored[name]]));
}

const embeddedUrls = (embedded: KeptEmbedded | null): NodeJS.ProcessEnv =>
  embedded
    ? {
        DATABASE_URL: embedded.urls.owner,
        RUNLEDGER_WEB_DATABASE_URL: embedded.urls.web,
        RUNLEDGER_WORKER_DATABASE_URL: embedded.urls.worker,
      }
    : {};

function startChild(name: ProcessName, env: NodeJS.ProcessEnv, say: Print): Child {
  // A person watches this terminal: print only what needs attention.
  const own = environmentFor(name, { RUNLEDGER_LOG_LEVEL: 'warn', ...env });
  // Both run on this machine, so the worker serves its metrics on the port after web's.
  const port = Number(own['RUNLEDGER_METRICS_PORT'] || 0);
  if (name === 'worker' && port > 0) own['RUNLEDGER_METRICS_PORT'] = String(port + 1);
  const scope = name === 'worker' ? [SCOPE] : [];
  const child = keepRunning({
    command: [...scope, process.execPath, ...NODE_FLAGS, CLI, name],
    env: own,
    must_start: name === 'web',
    onEnd: (end, restart_in_ms) => {
      const left = name === 'web' ? 'serve gives up' : 'not started again';
      const next = restart_in_ms === null ? left : `restart in ${restart_in_ms} ms`;
      say(`${name} ${endText(end)}, ${next}`);
    },
  });
  // A free port is chosen once: after a restart the printed address still leads to it.
  if (name === 'web' && own['PORT'] === '0')
    void child.first.then((started) => {
      if (started.kind === 'ready') own['PORT'] = new URL(started.address!).port;
    });
  return child;
}

/** Prints the three lines that a new user needs. */
function introduce(config: Config, address: string, key: string | null, answer: Print): void {
  const shown_before =
    'shown at the first start; `./runledger keys create --account NAME` makes another';
  const header = config.tls === 'proxy' ? " -H 'X-Forwarded-Proto: https'" : '';
  const [first = ''] = config.languages;
  const hello = JSON.stringify({ language: first, code: BY_NAME.get(first)?.hello });
  answer(`address  ${address}`);
  answer(`key      ${key ?? shown_before}`);
  answer(
    `try      curl -sS -H 'X-API-Key: ${key ?? 'YOUR_KEY'}' -H 'Content-Type: application/json'${header} -d '${hello}' '${address}/api/submit?wait=true'`,
  );
}
