/** A service that a drill has started: its database, and what it answers. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type Server, type ServerOptions, startServer } from '../../src/local/postgres.ts';
import {
  createDatabase,
  createRoles,
  ROLES,
  type RolePasswords,
  type RoleUrls,
  roleUrls,
} from '../../src/local/roles.ts';

/** An emulated machine takes minutes for what takes seconds elsewhere. */
const PATIENCE_MS = 900_000;

/** And its programs need longer limits. To look for other languages than Python's takes it minutes. */
export const SLOWNESS: Readonly<Record<string, string>> = {
  RUNLEDGER_LANGUAGES: 'python',
  RUNLEDGER_LIMITS_CPU: '5min',
  RUNLEDGER_LIMITS_CPU_MAX: '5min',
  RUNLEDGER_LIMITS_WALL: '10min',
  RUNLEDGER_LIMITS_WALL_MAX: '10min',
};

type DatabaseOptions = Partial<Pick<ServerOptions, 'programs' | 'settings'>>;

/** A PostgreSQL with the four logins and no schema. */
export async function startDatabase(
  options: DatabaseOptions = {},
): Promise<{ urls: RoleUrls; server: Server }> {
  const make = () => randomBytes(16).toString('hex');
  const password = make();
  const passwords = Object.fromEntries(ROLES.map((role) => [role, make()])) as RolePasswords;
  const folder = mkdtempSync('/var/tmp/postgres-');
  // Before 16, initdb must find its way back to where it began.
  chmodSync(folder, 0o711);
  const data_dir = join(folder, 'data');
  const own = { data_dir, password, uid: null, durable: false, port: null, settings: {} };
  const server = await startServer({ ...own, ...options });
  const superuser = `postgres://postgres:${password}@127.0.0.1:${server.port}/postgres`;
  await createRoles(superuser, passwords);
  await createDatabase(superuser, 'runledger');
  // createRoles is for `postgres`, and the service's database is another one.
  const urls = roleUrls(superuser.replace(/postgres$/, 'runledger'), passwords);
  return { urls, server };
}

type Answer = {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: several calls' answers.
  json: any;
};

/** As the router in front would; status 0 where nothing answers. */
export async function call(origin: string, path: string, key = '', body?: object): Promise<Answer> {
  const headers = {
    'X-Forwarded-Proto': 'https',
    'X-API-Key': key,
    'Content-Type': 'application/json',
  };
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  const answer = await fetch(origin + path, { ...init, headers }).catch(() => null);
  return { status: answer?.status ?? 0, json: await answer?.json() };
}

/** A program runs, and its run was isolated in the expected way. */
export async function isolates(origin: string, key: string, kind: string): Promise<void> {
  await until('web is ready', async () => (await call(origin, '/readyz')).status === 200);
  const program = { language: 'python', code: 'print(6 * 7)' };
  let { status, json: record } = await call(origin, '/api/submit', key, program);
  // A machine that is this slow may need longer for one statement than web waits.
  await until('an acceptance', async () => {
    if (status === 503)
      ({ status, json: record } = await call(origin, '/api/submit', key, program));
    return status !== 503;
  });
  assert.equal(status, 202, JSON.stringify(record));
  const { id } = record;
  await until('a verdict', async () => {
    record = (await call(origin, `/api/result/${id}?wait=true`, key)).json;
    return record.status === 'completed';
  });
  assert.equal(record.verdict, 'AC', JSON.stringify(record));
  assert.equal(record.stdout, '42\n');
  // A worker that was killed counts until its heartbeats are missed.
  await until(`isolation by ${kind} alone`, async () => {
    const { status, json } = await call(origin, '/api/health', key);
    // The first key may ask 60 times a minute.
    if (status === 429) return false;
    const { isolation } = json;
    assert.deepEqual({ ...isolation, kinds: [] }, { kinds: [], degraded: false, missing: [] });
    return isolation.kinds.join() === kind;
  });
}

export async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error(`${what}: it did not come`);
    await wait(500);
  }
}
