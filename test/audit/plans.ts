/**
 * Asks the questions of AUDIT.md with the auditor's login of a large ledger, and prints how long each took and its plan.
 *
 *   make audit-plans SUBMISSIONS=1000000
 *
 * Two times, each the best of five: until the answer is there, and of that the CPU time of the server, in one process. On a
 * machine that does other things, too, the first says how busy it is, and the second what the query costs.
 */
import { readFileSync } from 'node:fs';
import { connect, type Db } from '../../src/db.ts';
import { ownServer } from '../support/database.ts';
import { FROM, fillLedger, THE, withoutLuck } from './large_ledger.ts';
import { filledIn, type Question, questions } from './questions.ts';

const ROUNDS = 5;
const LIMIT_MS = 100;

export type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Plans?: Plan[];
};

/** A day in the middle of the month, a moment of it at which something ran, and things that are there. */
export async function variablesOf(db: Db): Promise<Record<string, string>> {
  const middle = new Date(Date.parse(FROM) + 15 * 86_400_000);
  const [found] = await db<{ submission: string; request: string }[]>`
    select stream as submission, facts ->> 'request_id' as request from runledger.events
    where type = 'submission.accepted' and (facts ->> 'webhook')::boolean and at >= ${middle} order by at limit 1`;
  const noon = new Date(middle.getTime() + 43_200_000);
  const [busy] = await db<{ at: string }[]>`
    select to_json(min(at) + interval '2 seconds') #>> '{}' as at from runledger.events
    where type = 'submission.accepted' and at >= ${noon}`;
  return {
    ...THE,
    ...found!,
    ...busy!,
    from: middle.toISOString(),
    to: new Date(middle.getTime() + 86_400_000).toISOString(),
  };
}

export async function planOf(db: Db, query: string): Promise<Plan> {
  const [row] = await db.unsafe(`explain (format json) ${query}`);
  return (row!['QUERY PLAN'] as { Plan: Plan }[])[0]!.Plan;
}

async function printQuestion(
  auditor: Db,
  { title, queries }: Question,
  of: Record<string, string>,
) {
  let slow = 0;
  const [backend] = await auditor<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const cpuMs = () =>
    Number(readFileSync(`/proc/${backend!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  for (const query of queries) {
    const text = filledIn(query, of);
    const best = { ms: Infinity, cpu_ms: Infinity };
    for (let n = 0; n < ROUNDS; n++) {
      const began = { at: performance.now(), cpu: cpuMs() };
      await auditor.unsafe(text);
      best.ms = Math.min(best.ms, performance.now() - began.at);
      best.cpu_ms = Math.min(best.cpu_ms, cpuMs() - began.cpu);
    }
    const verdict = best.cpu_ms > LIMIT_MS ? ', TOO SLOW' : '';
    if (verdict) slow += 1;
    console.log(`\n## ${title}`);
    console.log(`${best.ms.toFixed(1)} ms, CPU ${best.cpu_ms.toFixed(1)} ms${verdict}`);
    for (const row of await auditor.unsafe(`explain (analyze, costs off, timing off) ${text}`)) {
      console.log(`    ${row['QUERY PLAN']}`);
    }
  }
  return slow;
}

if (import.meta.main) {
  const submissions = Number(process.env['SUBMISSIONS'] || 1_000_000);
  const undo: (() => unknown)[] = [];
  const server = await ownServer(
    { teardown: (work) => void undo.unshift(work) },
    { max_wal_size: '8GB', checkpoint_timeout: '1h', shared_buffers: '512MB' },
  );
  const db = connect(server.url, { name: 'audit plans', max: 1 });
  const auditor = connect(server.urls.auditor, { name: 'audit plans', max: 1 });
  undo.unshift(() => Promise.all([db, auditor].map((each) => each.end({ timeout: 1 }))));
  try {
    const began = performance.now();
    await fillLedger(db, submissions);
    const superuser = connect(server.superuser_url, { name: 'audit plans', max: 1 });
    await withoutLuck(superuser);
    await superuser.end();
    const [log] = await db`select count(*)::integer as events from runledger.events`;
    const took_s = ((performance.now() - began) / 1000).toFixed(0);
    console.log(`${submissions} submissions, ${log!['events']} events, filled in ${took_s} s`);
    await auditor`set max_parallel_workers_per_gather = 0`;
    const variables = await variablesOf(db);
    let slow = 0;
    for (const question of questions) slow += await printQuestion(auditor, question, variables);
    console.log(`\n${questions.length} questions, ${slow} queries over ${LIMIT_MS} ms`);
    process.exitCode = slow === 0 ? 0 : 1;
  } finally {
    for (const work of undo) await work();
  }
}
