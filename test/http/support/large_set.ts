/**
 * The life of a large set: it is uploaded, judged on two workers, and judged again. What this takes of web's memory, and which
 * contents the workers fetch, is counted outside of them: by the kernel, and in the database.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { zipOf } from '../../judging/zip_writer.ts';
import type { Reply } from './call.ts';
import { realWorker } from './real_worker.ts';
import { type Service, startService } from './service.ts';
import type { Test } from './web_process.ts';

export type LargeSet = { tests: number; file_bytes: number };

export type Round = {
  /** of each submission */
  verdicts: string[];
  /** The tests of all submissions that are AC. */
  accepted: number;
  /** For each worker, the contents that it fetched so far, and how many calls that took. */
  fetched: { contents: number; calls: number }[];
  seconds: number;
};

export type LargeSetReport = {
  set_bytes: number;
  /** By which the largest resident memory of web rose: while the set was uploaded, and until the end. */
  upload_grew_bytes: number;
  grew_bytes: number;
  /** Until both workers have judged by the set. */
  first: Round;
  /** Until both workers have done so again. */
  second: Round;
  upload_seconds: number;
};

const ZIP = { 'content-type': 'application/zip' };

/** The reason why this machine cannot run a worker, or the report. */
export async function judgeLargeSet(t: Test, large: LargeSet): Promise<string | LargeSetReport> {
  const service = await startService(t, { webs: 1, hand_languages: [] });
  const { pid } = service.webs[0]!.process;
  await countFetches(service);
  const key = await service.key();
  const upload = (archive: Uint8Array) =>
    service.call({ method: 'POST', path: '/api/test-sets', key, body: archive, headers: ZIP });
  // The first upload loads code.
  await upload(archiveOf({ tests: 1, file_bytes: 100 }));
  const archive = archiveOf(large);
  const before = residentPeak(pid!);
  const at_ms = performance.now();
  const set = expected(201, await upload(archive));
  const upload_seconds = (performance.now() - at_ms) / 1000;
  const upload_grew_bytes = residentPeak(pid!) - before;
  for (let n = 0; n < 2; n += 1) {
    const cannot = await realWorker(t, service.database, {
      RUNLEDGER_LANGUAGES: 'cpp',
      RUNLEDGER_PRECOMPILED_HEADERS: 'off',
      RUNLEDGER_SLOTS: '1',
      RUNLEDGER_LIMITS_WALL: '10min',
      RUNLEDGER_LIMITS_WALL_MAX: '10min',
      RUNLEDGER_TESTS_WALL: '1h',
    });
    if (cannot !== null) return cannot;
  }
  const first = await judgeOnBoth(service, key, set.id);
  const second = await judgeOnBoth(service, key, set.id);
  const grew_bytes = residentPeak(pid!) - before;
  return { set_bytes: set.bytes, upload_grew_bytes, grew_bytes, first, second, upload_seconds };
}

const PROGRAM = `#include <stdio.h>
int main() {
  static char buffer[1 << 16];
  puts("the answer to");
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, stdin)) > 0;) fwrite(buffer, 1, n, stdout);
}
`;

/** No two files are equal, and none can be compressed much. */
function archiveOf({ tests, file_bytes }: LargeSet): Buffer {
  const input = (n: number) => {
    const line = createHash('sha512').update(String(n)).digest('base64').slice(0, 79);
    return Buffer.alloc(Math.ceil(file_bytes / 80) * 80, `${line}\n`);
  };
  return zipOf(
    Array.from({ length: tests }, (_, n) => [
      { name: `${n}.in`, data: input(n), stored: true },
      {
        name: `${n}.ans`,
        data: Buffer.concat([Buffer.from('the answer to\n'), input(n)]),
        stored: true,
      },
    ]).flat(),
  );
}

/** The function by which a worker fetches pieces notes each call. It is not the worker that counts. */
async function countFetches({ db }: Service): Promise<void> {
  await db.unsafe(`
    create table runledger.fetches (consumer uuid, sha256 bytea);
    create schema uncounted;
    alter function runledger.read_pieces set schema uncounted;
    create function runledger.read_pieces(consumer uuid, sha256 bytea, first integer, most integer)
    returns table (n integer, bytes bytea)
    language plpgsql security definer set search_path = runledger, pg_temp
    as $$
    begin
      insert into fetches values (read_pieces.consumer, read_pieces.sha256);
      return query select * from uncounted.read_pieces(
        read_pieces.consumer, read_pieces.sha256, read_pieces.first, read_pieces.most);
    end
    $$;
    grant execute on function runledger.read_pieces to runledger_worker`);
}

const MOST_ROUNDS = 20;

/** Two submissions at once, again until each worker has had one. */
async function judgeOnBoth(service: Service, key: string, test_set: string): Promise<Round> {
  const { db } = service;
  const at_ms = performance.now();
  const ids: string[] = [];
  const verdicts: string[] = [];
  let accepted = 0;
  for (let round = 1; round <= MOST_ROUNDS; round += 1) {
    const submissions = [1, 2].map(async () => {
      const body = { language: 'cpp', code: PROGRAM, test_set };
      const { id } = expected(202, await service.submit(key, body));
      const { verdict, tests } = await ended(service, key, id);
      verdicts.push(verdict);
      accepted += tests.filter((test: { verdict: string }) => test.verdict === 'AC').length;
      ids.push(id);
    });
    await Promise.all(submissions);
    const [row] = await db<{ workers: number }[]>`
      select count(distinct facts ->> 'consumer')::integer as workers from runledger.events
      where type = 'execution.started' and stream = any (${`{${ids.join(',')}}`}::text::uuid[])`;
    if (row!.workers === 2) break;
    if (round === MOST_ROUNDS) throw new Error('one worker got every submission');
  }
  const fetched = await db<{ contents: number; calls: number }[]>`
    select count(distinct sha256)::integer as contents, count(*)::integer as calls
    from runledger.fetches group by consumer`;
  const seconds = (performance.now() - at_ms) / 1000;
  return { verdicts, accepted, fetched: [...fetched], seconds };
}

async function ended(service: Service, key: string, id: string): Promise<Reply['json']> {
  for (;;) {
    const record = expected(200, await service.call({ path: `/api/result/${id}`, key }));
    if (record.status === 'error') throw new Error(await whyFailed(service, id));
    if (!['pending', 'running'].includes(record.status)) return record;
    // A judging takes tens of seconds.
    await wait(500);
  }
}

function expected(status: number, reply: Reply): Reply['json'] {
  if (reply.status === status) return reply.json;
  throw new Error(`${reply.status} ${reply.text}`);
}

/** In bytes; the kernel keeps the largest value. */
function residentPeak(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Number(kib) * 1024;
}

async function whyFailed({ db }: Service, id: string): Promise<string> {
  const rows =
    await db`select type, facts from runledger.events where stream = ${id} order by version`;
  return `the service failed: ${JSON.stringify(rows)}`;
}
