/**
 * Web and PostgreSQL are each killed at each step of an upload of a test set. The set is there
 * whole or not at all, the same upload sent again stores it, and what the killed one left goes.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { verify } from '../../src/store/verify.ts';
import { archiveOf } from '../judging/packages.ts';
import { until } from './judged_scene.ts';
import { CannotIsolate, type Service, startService } from './service.ts';

type Step = {
  name: string;
  /** Of the body, how much is sent. */
  sent: 'half' | 'all';
  /** Keeps the upload at this step; the statement that waits for it. */
  lock: { take: (tx: Db) => Promise<unknown>; waits: string } | null;
  /** Whether the set may be there after a kill of web: PostgreSQL goes on with the statement. */
  stored_without_web: boolean;
};

const STEPS: readonly Step[] = [
  { name: 'while the body arrives', sent: 'half', lock: null, stored_without_web: false },
  {
    name: 'while its first pieces are stored',
    sent: 'all',
    lock: {
      take: (tx) => tx`lock table runledger.content_pieces in exclusive mode`,
      waits: 'put_pieces',
    },
    stored_without_web: false,
  },
  {
    name: 'while the set is created',
    sent: 'all',
    lock: { take: (tx) => tx`select runledger.lock_test_sets()`, waits: 'create_test_set' },
    stored_without_web: true,
  },
];

const archive = archiveOf({
  'problem.yaml': 'problem_format_version: 2025-09\nname: Large\nuuid: 0\n',
  // Several calls' worth of pieces.
  'data/secret/1.in': randomBytes(700_000),
  'data/secret/1.ans': '1\n',
  'data/secret/2.in': randomBytes(300_000),
  'data/secret/2.ans': '2\n',
});

const half = archive.subarray(0, archive.length / 2);

const folder = await mkdtemp(join(tmpdir(), 'runledger-upload-kills-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));

const env = { RUNLEDGER_STATE_DIR: join(folder, 'web') };
const uploads = join(folder, 'web', 'uploads');
const service = await startService(t, { folder, webs: 1, workers: 0, ca_file: '', env }).catch(
  (error: unknown) => {
    // Not thrown: what was started must be torn down.
    if (error instanceof CannotIsolate) t.pass('upload kills', { skip: error.message });
    else t.fail(`the service did not start: ${error}`);
    return null;
  },
);
if (service !== null) await kills(service);

/** In the file of an upload, which has no name, so only its process shows it. */
function arrivedBytes(pid: number): number {
  const sizeOf = (fd: string) => {
    try {
      return readlinkSync(fd).startsWith(uploads) ? statSync(fd).size : 0;
    } catch {
      return 0; // it was closed
    }
  };
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`);
  return open.reduce((sum, fd) => sum + sizeOf(fd), 0);
}

async function kills({ database, webs: [web] }: Service): Promise<void> {
  const db = connect(database.superuser_url, { name: 'test', max: 2 });
  const owner = connect(database.urls.owner, { name: 'test', max: 1 });
  t.teardown(() => Promise.all([db, owner].map((each) => each.end({ timeout: 1 }))));
  await setTier(owner, { name: 'free', per_minute: 0, concurrent: 0 });
  const key = newSecret('rl');
  const digest = secretDigest(key);
  await createKey(owner, { account: 'a', tier: 'free', prefix: 'rl', secret_digest: digest });

  const call = async (method: string, path = '', body: Uint8Array | null = null) => {
    const headers = { 'x-api-key': key, ...(body && { 'content-type': 'application/zip' }) };
    const url = `${web!.origin}/api/test-sets${path}`;
    const answer = await fetch(url, { method, headers, body });
    return { status: answer.status, text: await answer.text() };
  };
  /** Also while web or PostgreSQL comes back. */
  const patiently = (...given: Parameters<typeof call>) =>
    until(async () => {
      const answer = await call(...given).catch(() => null);
      return answer?.status === 503 ? null : answer;
    });
  const stored = async () => {
    const { status, text } = await patiently('GET');
    if (status !== 200) throw new Error(text);
    return (JSON.parse(text) as { test_sets: { id: string }[] }).test_sets;
  };

  /** Sends what the step sends, and answers when the upload is there. */
  async function arrive({ sent, lock }: Step): Promise<() => Promise<void>> {
    const own = connect(database.superuser_url, { name: 'lock', max: 1 });
    await own`begin`;
    await lock?.take(own);
    const { port } = new URL(web!.origin);
    const socket = connectSocket(Number(port), '127.0.0.1').on('error', () => {});
    const head = [
      'POST /api/test-sets HTTP/1.1',
      `Host: 127.0.0.1`,
      `X-API-Key: ${key}`,
      'Content-Type: application/zip',
      `Content-Length: ${archive.length}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    socket.write(sent === 'all' ? archive : half);
    await until(async () => {
      if (lock === null) return arrivedBytes(web!.pid()!) === half.length;
      const waiting = await db`
        select from pg_stat_activity where wait_event_type = 'Lock' and query like ${`%${lock.waits}%`}`;
      return waiting.length > 0;
    });
    return async () => {
      await own.end({ timeout: 0 }).catch(() => {});
      socket.destroy();
    };
  }

  for (const step of STEPS) {
    t.test(`web is killed ${step.name}`, async (t) => {
      const release = await arrive(step);
      web!.kill();
      await until(() => web!.pid() === null);
      await release();
      await web!.revive();
      t.same(readdirSync(uploads), [], 'nothing of it is left on the disk');
      const idle = () =>
        db`select from pg_stat_activity where state <> 'idle' and query like '%test_set%' and pid <> pg_backend_pid()`;
      await until(async () => (await idle()).length === 0);
      t.equal((await stored()).length, step.stored_without_web ? 1 : 0);
      await sentAgain(t, step.stored_without_web ? 200 : 201);
    });

    t.test(`PostgreSQL is killed ${step.name}`, async (t) => {
      const release = await arrive(step);
      await database.kill();
      await release();
      await database.start();
      t.same(await stored(), []);
      await sentAgain(t, 201);
    });
  }

  /** The same upload once more: then the set is there once, whole, and nothing else is. */
  async function sentAgain(t: Test, status: number): Promise<void> {
    const answer = await patiently('POST', '', archive);
    t.equal(answer.status, status, answer.text);
    t.match(JSON.parse(answer.text), { tests: 2, bytes: 1_000_000 + 4 });
    const sets = await stored();
    t.equal(sets.length, 1);
    const { problems } = await verify(owner, { head: null, signers: [] });
    t.same(problems, []);
    await owner`select runledger.forget_arrived('0 seconds')`;
    const kept = await db<{ stored: boolean; bytes: number }[]>`
      select c.stored, sum(length(p.bytes))::integer as bytes from runledger.contents c
      join runledger.content_pieces p on p.content_id = c.id group by c.id order by 2`;
    t.strictSame(
      [...kept],
      [2, 2, 300_000, 700_000].map((bytes) => ({ stored: true, bytes })),
    );
    t.equal((await patiently('DELETE', `/${sets[0]!.id}`)).status, 204);
  }
}
