/**
 * Asks the questions of AUDIT.md with the auditor's login of a large ledger, and prints how long each took and its plan.
 *
 *   make audit-plans [SUBMISSIONS=1000000]
 *
 * The time is the best of five: what the query costs, on a machine that does other things, too.
 */
import { connect, type Db } from '../../src/db.ts';
import { ownServer } from '../support/database.ts';
import { FROM, fillLedger, THE } from './large_ledger.ts';
import { filledIn, type Question, questions } from './questions.ts';

const ROUNDS = 5;
const LIMIT_MS = 100;

export type Plan = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows'?: number;
  Plans?: Plan[];
};
type Explained = { Plan: Plan; 'Execution Time': number; 'Planning Time': number };

/** A day and an hour in the middle of the month, and things that are there. */
export async function variablesOf(db: Db): Promise<Record<string, string>> {
  const middle = new Date(Date.parse(FROM) + 15 * 86_400_000);
  const [found] = await db<{ submission: string; request: string }[]>`
    select stream as submission, facts ->> 'request_id' as request from runledger.events
    where type = 'submission.accepted' and (facts ->> 'webhook')::boolean and at >= ${middle} order by at limit 1`;
  return {
    ...THE,
    ...found!,
    from: middle.toISOString(),
    to: new Date(middle.getTime() + 86_400_000).toISOString(),
    at: new Date(middle.getTime() + 43_200_000).toISOString(),
  };
}

export async function explain(db: Db, query: string, analyze: boolean): Promise<Explained> {
  const options = analyze ? 'analyze, buffers, format json' : 'format json';
  const [row] = await db.unsafe(`explain (${options}) ${query}`);
  return (row!['QUERY PLAN'] as Explained[])[0]!;
}

async function printQuestion(auditor: Db, { title, queries }: Question, of: Record<string, string>) {
  let slow = 0;
  for (const query of queries) {
    const text = filledIn(query, of);
    const times: number[] = [];
    for (let n = 0; n < ROUNDS; n++) {
      const began = performance.now();
      await auditor.unsafe(text);
      times.push(performance.now() - began);
    }
    const best = Math.min(...times);
    if (best > LIMIT_MS) slow += 1;
    console.log(`\n## ${title}\n${best.toFixed(1)} ms${best > LIMIT_MS ? ' TOO SLOW' : ''}`);
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
    const [log] = await db`select count(*)::integer as events from runledger.events`;
    const took_s = ((performance.now() - began) / 1000).toFixed(0);
    console.log(`${submissions} submissions, ${log!['events']} events, filled in ${took_s} s`);
    const variables = await variablesOf(db);
    let slow = 0;
    for (const question of questions) slow += await printQuestion(auditor, question, variables);
    console.log(`\n${questions.length} questions, ${slow} queries over ${LIMIT_MS} ms`);
    process.exitCode = slow === 0 ? 0 : 1;
  } finally {
    for (const work of undo) await work();
  }
}
