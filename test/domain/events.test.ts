import t from 'tap';
import { connect } from '../../src/db.ts';
import { DELIVERY_ENDS } from '../../src/domain/delivery_outcomes.ts';
import { currentSchemaOf, type EventType, eventTypes, problemOf } from '../../src/domain/events.ts';
import { LOSS_REASONS } from '../../src/domain/loss_reasons.ts';
import { VERDICT_NAMES } from '../../src/domain/verdicts.ts';
import { freshDatabase } from '../support/database.ts';

const OLD = {
  attempt: 1,
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  memory_peak_bytes: 1,
  cpu_ms: 12,
  wall_ms: null,
  truncated: true,
  compile: null,
  evidence: {},
  bytes: {},
};

t.test('SQL and eventTypes have the same newest schemas, and SQL upgrades to them', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  for (const type of Object.keys(eventTypes) as EventType[]) {
    const [row] = await db`select runledger.current_schema_of(${type}) as schema`;
    t.equal(row!['schema'], currentSchemaOf(type), type);
  }
  t.equal(problemOf({ type: 'submission.completed', schema: 1, facts: OLD }), null);
  const [row] = await db`
    select runledger.upgrade_facts('submission.completed', 1::smallint, ${db.json(OLD)}) as facts`;
  t.equal(problemOf({ type: 'submission.completed', schema: 2, facts: row!['facts'] }), null);
  t.match(row!['facts'], { cpu_time_us: 12_000, wall_time_us: null, stderr_truncated: true });
  await db`create schema if not exists public`;
  await db`
    create function public.jsonb_build_object(text, bigint, text, bigint, text, jsonb, text, jsonb) returns jsonb
    language sql immutable return '{"verdict": "WA"}'::jsonb`;
  const other = connect(url, { name: 'test', max: 1 });
  t.teardown(() => other.end());
  await other`set search_path = public`;
  const old = `'${JSON.stringify(OLD)}'::jsonb`;
  const [again] = await other.unsafe(
    `select runledger.upgrade_facts('submission.completed', 1::smallint, ${old}) as facts`,
  );
  t.same(again, row, 'whatever functions there are in public');
});

t.test('an event has digests of the kinds of its type alone', async (t) => {
  const digest = { size: 1, sha256: 'a'.repeat(64) };
  const attempted = (bytes: object) =>
    problemOf({
      type: 'delivery.attempted',
      schema: 1,
      facts: {
        ...{ attempt: 1, outcome: 'delivered', counts: true, status: 200, detail: null },
        ...{ address: null, retry_after_ms: null, answer_bytes: 0, answer_cut: false },
        ...{ duration_ms: 1, bytes },
      },
    });
  t.equal(attempted({ webhook_body: digest }), null);
  for (const kind of ['code', 'stdout', 'manifest'])
    t.match(attempted(JSON.parse(`{"${kind}":${JSON.stringify(digest)}}`)), /bytes/, kind);
  t.match(attempted({ webhook_body: null }), /bytes/);
});

t.test('problemOf names what is wrong with facts', async (t) => {
  const problem = (type: string, schema: number, facts: unknown) =>
    problemOf({ type, schema, facts });
  for (const field of ['bytes', 'evidence'])
    t.match(problem('submission.completed', 1, { ...OLD, [field]: [] }), new RegExp(`^${field}: `));
  t.equal(problem('key.revoked', 1, []), 'facts: is a list');
  t.match(problem('submission.completed', 2, OLD), /cpu_time_us/);
  t.match(
    problem('key.rotated', 1, { digest: 'short', others_expire_at: 'soon' }),
    /digest: .*; others_expire_at: /,
  );
  t.match(problem('tier.set', 1, { name: 'x', per_minute: 1, concurrent: 1, more: 1 }), /more/);
  const tier = (per_minute: number) =>
    problem('tier.set', 1, { name: 'x', per_minute, concurrent: 1 });
  t.equal(tier(2 ** 53 - 1), null);
  t.match(tier(2 ** 53), /^per_minute: /, 'a number that doubles do not have exactly');
  t.equal(problem('submission.completed', 3, {}), 'no such event: submission.completed, schema 3');
  t.equal(problem('nothing.known', 1, {}), 'no such event: nothing.known, schema 1');
});

t.test('names come from their lists, and languages are open', async (t) => {
  const problem = (type: string, schema: number, facts: unknown) =>
    problemOf({ type, schema, facts });
  const consumer = 'd5878fba-2e0c-4f31-a614-7160c2c48760';
  const lost = (reason: string) =>
    problem('execution.lost', 2, { attempt: 1, consumer, reason, counts: false, evidence: {} });
  for (const reason of LOSS_REASONS) t.equal(lost(reason), null, reason);
  t.match(lost('stopped'), /^reason: /);
  const refused = (verdict: string | null) =>
    problem('execution.refused', 2, { attempt: 1, consumer, verdict });
  for (const verdict of [...VERDICT_NAMES, null]) t.equal(refused(verdict), null, String(verdict));
  t.match(refused('ZZ'), /^verdict: /);
  const completed = { ...OLD, verdict: 'IE' };
  t.match(problem('submission.completed', 1, completed), /^verdict: /, 'IE is not completed');
  const accepted = (language: string) =>
    problem('submission.accepted', 1, {
      ...{ account_id: consumer, key_id: consumer, language },
      ...{ bytes: {}, compare: 'exact', limits: {} },
    });
  t.equal(accepted('whitespace'), null);
  t.match(accepted(''), /^language: /);
  t.match(problem('delivery.ended', 1, { outcome: 'lost' }), /^outcome: /);
  t.match(problem('delivery.requested', 1, { next_at: 'soon' }), /^next_at: /);
});

t.test('a delivery ends in the same words in SQL', async (t) => {
  const db = connect((await freshDatabase(t)).url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  const [row] = await db`
    select pg_get_constraintdef(oid) as text from pg_constraint
    where conrelid = 'runledger.deliveries'::regclass and contype = 'c'`;
  const words = [...String(row!['text']).matchAll(/'([a-z]+)'/g)].map((match) => match[1]);
  t.same(words, ['waiting', ...DELIVERY_ENDS]);
});

t.test('names that JavaScript has everywhere are names like any other', async (t) => {
  const old = (change: string) =>
    problemOf({
      type: 'submission.completed',
      schema: 1,
      facts: JSON.parse(JSON.stringify(OLD).replace(...(change.split('>') as [string, string]))),
    });
  for (const name of ['__proto__', 'prototype', 'constructor']) {
    t.match(old(`"bytes":{}>"bytes":{"${name}":1}`), /^bytes: /, name);
    t.equal(old(`"evidence":{}>"evidence":{"${name}":1}`), null, name);
    t.match(old(`"evidence":{}>"evidence":{},"${name}":1`), /Invalid key/, name);
  }
});

t.test('times in facts', async (t) => {
  const requested = (next_at: string) =>
    problemOf({ type: 'delivery.requested', schema: 1, facts: { next_at } });
  for (const time of [
    '2026-11-20T09:22:23.104123+00:00',
    '2026-11-20 09:22:23.123456789-2359',
    '0000-02-31T00:00:00+05',
    '2026-11-20T09:22:23Z',
  ])
    t.equal(requested(time), null, time);
  for (const time of [
    'infinity',
    '2026-11-20T24:00:00Z',
    '2026-11-20T23:59:60Z',
    '2026-11-20T23:59Z',
    '2026-11-20T09:22:23',
    '2026-11-20T09:22:23 +00:00',
    '2026-11-20t09:22:23z',
    '2026-11-32T09:22:23Z',
    '12026-11-20T09:22:23Z',
  ])
    t.type(requested(time), 'string', time);
});
