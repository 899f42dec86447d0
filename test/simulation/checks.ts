/** What must be true when all is quiet again. Each check answers with what is wrong, in words; none is good. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { connect } from '../../src/db.ts';
import { verify } from '../../src/store/verify.ts';
import type { Got } from '../webhooks/receiver.ts';
import type { Seen } from './follow.ts';
import { PROGRAMS } from './programs.ts';
import type { Service } from './service.ts';

export type Accepted = {
  id: string;
  program: string;
  webhook_secret: string | null;
  /** Its client was answered that it is cancelled. */
  cancelled: boolean;
  /** By a caller that waited for its end, if there was one. */
  seen: Seen | null;
};

export type Facts = {
  events: number;
  executions: number;
  lost: Record<string, number>;
  refused: number;
  cancelled: number;
  failed_by_deaths: number;
  deliveries: number;
};

type Row = {
  id: string;
  status: string;
  verdict: string | null;
  terminal: number;
  deaths: number;
  /** The facts of the last event, to find out why one ended as it should not. */
  end: object;
  disorder: boolean;
};

export async function check(
  service: Service,
  accepted: readonly Accepted[],
  got: readonly Got[],
): Promise<{ wrong: string[]; facts: Facts }> {
  const db = connect(service.database.urls.owner, { name: 'checks', max: 2 });
  try {
    const rows = await db<Row[]>`
      select s.id, s.status, s.verdict, s.deaths,
        (array_agg(e.facts order by e.version desc))[1] as end,
        count(*) filter (where e.type in ('submission.completed', 'submission.failed', 'submission.cancelled'))::integer as terminal,
        bool_or(e.type = 'execution.started' and e.previous not in ('submission.accepted', 'execution.lost', 'execution.refused')) as disorder
      from runledger.submissions s join (
        select stream, version, facts, type, lag(type) over (partition by stream order by version) as previous from runledger.events
        where type not like 'delivery.%'
      ) e on e.stream = s.id group by 1, 2, 3, 4`;
    const wrong = [
      ...endings(rows, accepted),
      ...(await leftovers(db)),
      ...webhooks(accepted, got),
    ];
    const report = await verify(db, { head: null, signers: [] });
    wrong.push(...report.problems.map((problem) => `verify: ${problem}`));
    return { wrong, facts: await factsOf(db) };
  } finally {
    await db.end();
  }
}

const VERDICTS = new Map<string, string>(PROGRAMS.map(({ name, verdict }) => [name, verdict]));

function endings(rows: readonly Row[], accepted: readonly Accepted[]): string[] {
  const wrong: string[] = [];
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const { id, program, cancelled, seen } of accepted) {
    const row = byId.get(id);
    byId.delete(id);
    wrong.push(...(seen?.wrong ?? []).map((what) => `${id}: its stream: ${what}`));
    if (row && seen && seen.status !== row.status)
      wrong.push(`${id}: a caller saw ${seen.status}, and it ended in ${row.status}`);
    if (!row) wrong.push(`${id}: accepted, and not in the log`);
    else if (row.terminal !== 1) wrong.push(`${id}: ${row.terminal} terminal events`);
    else if (row.disorder) wrong.push(`${id}: started while it ran`);
    else if (cancelled !== (row.status === 'cancelled'))
      wrong.push(`${id}: ${cancelled ? 'cancelled' : 'not cancelled'}, and ended in ${row.status}`);
    else if (cancelled) continue;
    else if (row.verdict !== VERDICTS.get(program) && !(row.verdict === 'IE' && row.deaths >= 3))
      wrong.push(
        `${id}: ${program} ended in ${row.verdict} after ${row.deaths} deaths: ${JSON.stringify(row.end)}`,
      );
  }
  for (const id of byId.keys()) wrong.push(`${id}: in the log, and answered to nobody`);
  return wrong;
}

export async function leftovers(db: ReturnType<typeof connect>): Promise<string[]> {
  const [row] = await db<Record<string, number>[]>`
    select (select count(*)::integer from graphile_worker.jobs) as jobs,
      (select count(*)::integer from graphile_worker.jobs where locked_by is not null) as locked_jobs,
      (select count(*)::integer from runledger.leases) as leases,
      (select count(*)::integer from runledger.progress) as progress,
      (select count(*)::integer from runledger.gated) as gated,
      (select sum(dispatched)::integer from runledger.key_usage) as places,
      (select sum(pending)::integer from runledger.account_usage) as pending,
      (select (q.accepted - p.started)::integer from runledger.queue_state q, runledger.queue_progress() p) as waiting,
      (select count(*)::integer from runledger.webhook_secrets) as webhook_secrets,
      (select count(*)::integer from runledger.deliveries where status <> 'delivered') as undelivered`;
  return Object.entries(row ?? {})
    .filter(([, count]) => count !== 0)
    .map(([what, count]) => `left over: ${count} ${what}`);
}

function webhooks(accepted: readonly Accepted[], got: readonly Got[]): string[] {
  const wrong: string[] = [];
  const byId = new Map<string, Got[]>();
  for (const one of got) {
    const id = one.headers['webhook-id'] as string;
    byId.set(id, [...(byId.get(id) ?? []), one]);
  }
  for (const { id, webhook_secret } of accepted) {
    const all = byId.get(id) ?? [];
    byId.delete(id);
    if (webhook_secret === null) {
      if (all.length > 0) wrong.push(`${id}: a webhook that nobody asked for`);
      continue;
    }
    if (all.length === 0) wrong.push(`${id}: no webhook arrived`);
    if (!all.every((one) => isSigned(one, webhook_secret))) wrong.push(`${id}: signature`);
    if (new Set(all.map(({ body }) => body.toString())).size > 1)
      wrong.push(`${id}: attempts with different bodies`);
  }
  for (const id of byId.keys()) wrong.push(`${id}: a webhook of nothing that was accepted`);
  return wrong;
}

/** By the specification alone, and not by our own code. */
function isSigned({ headers, body }: Got, secret: string): boolean {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const mac = createHmac('sha256', secret).update(signed).digest();
  const given = Buffer.from(String(headers['webhook-signature']).replace('v1,', ''), 'base64');
  return given.length === mac.length && timingSafeEqual(given, mac);
}

async function factsOf(db: ReturnType<typeof connect>): Promise<Facts> {
  const counts = await db<{ type: string; reason: string | null; count: number }[]>`
    select type, case when type = 'execution.lost' then facts ->> 'reason' end as reason, count(*)::integer as count
    from runledger.events group by 1, 2`;
  const of = (type: string) =>
    counts.filter((one) => one.type === type).reduce((sum, { count }) => sum + count, 0);
  return {
    events: counts.reduce((sum, { count }) => sum + count, 0),
    executions: of('execution.started'),
    lost: Object.fromEntries(
      counts.filter(({ reason }) => reason).map(({ reason, count }) => [reason, count]),
    ),
    refused: of('execution.refused'),
    cancelled: of('submission.cancelled'),
    failed_by_deaths: of('submission.failed'),
    deliveries: of('delivery.attempted'),
  };
}
