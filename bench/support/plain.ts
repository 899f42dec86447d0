/**
 * The floor of the queue: the simplest program that does the same. It makes the same checks and stores the same facts and
 * bytes, but each step is a separate transaction on its own connection, one job runs at a time, and graphile-worker is
 * used as on the first page of its manual.
 */
import { createHash, randomUUID } from 'node:crypto';
import { Logger, run } from 'graphile-worker';
import { connect, type Db } from '../../src/db.ts';

const SCHEMA = `
  create schema plain;
  create table plain.keys (digest bytea primary key, hits integer not null default 0, running integer not null default 0);
  create table plain.events (stream uuid, version integer, type text, at timestamptz default now(), facts jsonb,
    primary key (stream, version));
  create table plain.payloads (stream uuid, kind text, bytes bytea, primary key (stream, kind));
  create table plain.submissions (id uuid primary key, status text, verdict text, stdout bytea);
`;

export type Plain = { once(): Promise<void>; stop(): Promise<void> };

export async function startPlain(url: string): Promise<Plain> {
  const db = connect(url, { name: 'plain', max: 32 });
  await db.unsafe(SCHEMA).simple();
  const digest = createHash('sha256').update('a key').digest();
  await db`insert into plain.keys (digest) values (${digest})`;
  const waiting = new Map<string, () => void>();
  await db.listen('plain_done', (id) => {
    waiting.get(id)?.();
    waiting.delete(id);
  });
  const runner = await run({
    connectionString: url,
    concurrency: 1,
    noHandleSignals: true,
    logger: new Logger(() => () => {}),
    taskList: { plain: (payload) => execute(db, (payload as { id: string }).id) },
  });
  return {
    async once() {
      const id = randomUUID();
      const ended = new Promise<void>((resolve) => waiting.set(id, resolve));
      await submit(db, digest, id);
      await ended;
      const [row] = await db<{ verdict: string }[]>`
        select verdict, stdout from plain.submissions where id = ${id}`;
      if (row?.verdict !== 'AC') throw new Error('no result');
    },
    async stop() {
      await runner.stop();
      await db.end({ timeout: 1 });
    },
  };
}

const submit = (db: Db, digest: Uint8Array, id: string) =>
  db.begin(async (tx) => {
    const [key] =
      await tx`update plain.keys set hits = hits + 1 where digest = ${digest} returning running`;
    if (!key) throw new Error('no such key');
    await tx`insert into plain.payloads values (${id}, 'code', ${Buffer.from('print(1)')})`;
    await tx`insert into plain.events (stream, version, type, facts)
      values (${id}, 1, 'submission.accepted', ${tx.json({ language: 'python', compare: 'lenient' })})`;
    await tx`insert into plain.submissions (id, status) values (${id}, 'pending')`;
    await tx`select graphile_worker.add_job('plain', ${JSON.stringify({ id })}::text::json)`;
  });

async function execute(db: Db, id: string): Promise<void> {
  const code = await db.begin(async (tx) => {
    await tx`insert into plain.events (stream, version, type, facts)
      values (${id}, 2, 'execution.started', ${tx.json({ attempt: 1 })})`;
    await tx`update plain.submissions set status = 'running' where id = ${id}`;
    return tx`select bytes from plain.payloads where stream = ${id} and kind = 'code'`;
  });
  if (code.length !== 1) throw new Error('no code');
  await db.begin(async (tx) => {
    await tx`insert into plain.events (stream, version, type, facts)
      values (${id}, 3, 'submission.completed', ${tx.json({ verdict: 'AC', exit_code: 0 })})`;
    await tx`update plain.submissions set status = 'completed', verdict = 'AC', stdout = ${Buffer.from('1')} where id = ${id}`;
    await tx`select pg_notify('plain_done', ${id})`;
  });
}
