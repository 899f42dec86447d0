/**
 * Every type of event, in every shape that it ever had. An event is never changed. A fact that may be absent is added to
 * the newest schema as `v.optional`: every event in the log still matches. For any other new shape, the schema number
 * rises, the old schema stays here, and `upgrade_facts` (sql/functions/event_types.sql) shows old facts in the newest
 * shape. A test holds the two files together. `./runledger verify` checks every event against its schema.
 *
 * Facts never hold bytes that a user sent: an event has their size and SHA-256(salt ‖ bytes). (The address that an attempt of
 * a webhook reached may stand in the webhook's URL.)
 */
import * as v from 'valibot';
import { DELIVERY_ENDS, OUTCOMES } from './delivery_outcomes.ts';
import { JUDGING_FACTS } from './judging_facts.ts';
import { EXCEEDABLE } from './limits.ts';
import { LOSS_REASONS } from './loss_reasons.ts';
import { type QuickCheck, quickCheck } from './quick_check.ts';
import { VERDICT_NAMES, verdictsWith } from './verdicts.ts';

/** Names that Valibot's own record passes over, whatever they and their values are. */
const PASSED_OVER = ['__proto__', 'prototype', 'constructor'];

/** Valibot's own takes a list, too. */
const record = ((key: v.GenericSchema<string>, value: v.GenericSchema) => {
  const made = v.record(key, value);
  const isWrong = (given: object, name: string) =>
    Object.hasOwn(given, name) &&
    !(v.is(key, name) && v.is(value, given[name as keyof typeof given]));
  const run: (typeof made)['~run'] = (dataset, config) => {
    const given = dataset.value;
    const is_list = Array.isArray(given);
    const is_object = typeof given === 'object' && given !== null && !is_list;
    if (!is_list && !(is_object && PASSED_OVER.some((name) => isWrong(given, name))))
      return made['~run'](dataset, config);
    v._addIssue(made, 'type', dataset, config);
    return dataset as never;
  };
  return { ...made, '~run': run };
}) as unknown as typeof v.record;

const uuid = v.pipe(v.string(), v.uuid());
/** Safe: JSON readers that have doubles alone read it exactly. */
const integer = v.pipe(v.number(), v.safeInteger());
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const measure = v.pipe(v.number(), v.minValue(0));
/** Valibot's own takes a space before the offset, too, which no reader of times does. */
const time = v.pipe(v.string(), v.isoTimestamp(), v.regex(/^.{11}\S+$/));
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const attempt = count;
const name = v.pipe(v.string(), v.nonEmpty());
/** Who gave the command, as user@host or console:NAME. Absent in events from before it was recorded. */
const operator = v.optional(name);
/** The same, with the X-Request-Id of a command that came from the console. */
const command = { operator, request_id: v.optional(name) };
/** What an operator did in the console. */
const in_console = { operator: name, request_id: name };
/** Retention did it by its schedule, and no operator. */
const scheduled = v.optional(v.literal(true));
/** Open: what the sandbox measured differs from one kind of isolation to another, and between versions. */
const evidence = record(v.string(), v.unknown());

const OF_END = ['stdout', 'stderr', 'tests', 'files', 'transcript', 'team_messages'] as const;
/** The payloads whose digests an event of each type may have. No kind is of two types, so no later event replaces a digest. */
export const KINDS_OF = {
  'submission.accepted': ['code', 'stdin', 'args', 'expected_output', 'webhook_url', 'judging'],
  'submission.completed': OF_END,
  'submission.failed': OF_END,
  'delivery.attempted': ['webhook_body'],
  'test_set.created': ['manifest'],
} as const satisfies Record<string, readonly string[]>;

const bytesOf = (type: keyof typeof KINDS_OF) =>
  record(v.picklist(KINDS_OF[type]), v.strictObject({ size: count, sha256 }));

const usage = {
  exit_code: v.nullable(integer),
  signal: v.nullable(v.pipe(v.string(), v.startsWith('SIG'))),
  memory_peak_bytes: v.nullable(count),
};
const compile = v.nullable(
  v.strictObject({
    cpu_time_us: v.nullable(count),
    wall_time_us: v.nullable(count),
    memory_peak_bytes: v.nullable(count),
    exit_code: v.nullable(integer),
    cached: v.boolean(),
  }),
);
const limitFacts = {
  /** In force for the run, by the names of `RunLimits`; limits are added to, and taken out. */
  limits: v.optional(record(name, count)),
  limit_exceeded: v.optional(v.nullable(v.picklist(EXCEEDABLE))),
};
/** Tolerances are null where there is none. */
const compare = v.union([
  v.picklist(['lenient', 'lines', 'exact']),
  v.strictObject({
    by: v.literal('tokens'),
    case_sensitive: v.boolean(),
    absolute: v.nullable(measure),
    relative: v.nullable(measure),
    space_change_sensitive: v.optional(v.literal(true)),
  }),
]);
const lossReason = v.picklist(LOSS_REASONS);
const completedVerdict = v.picklist(verdictsWith('completed'));
const reportedVerdict = v.nullable(v.picklist(VERDICT_NAMES));

/** By type, then by schema number from 1. */
export const eventTypes = {
  'submission.accepted': [
    v.strictObject({
      account_id: uuid,
      key_id: uuid,
      // Languages and limits are added to, and taken out: an event keeps the name that it had.
      language: name,
      bytes: bytesOf('submission.accepted'),
      compare,
      limits: record(name, count),
      webhook: v.optional(v.boolean()),
      /** How many tests came with the request; or the stored set that has them. Both absent: none. */
      tests: v.optional(count),
      test_set: v.optional(uuid),
      stop: v.optional(v.picklist(['first', 'never'])),
      idempotency_key: v.optional(uuid),
      /** The X-Request-Id of the answer. */
      request_id: v.optional(name),
      traceparent: v.optional(v.string()),
      /** An operator had this submission run again. */
      rerun_of: v.optional(uuid),
      operator,
    }),
  ],
  'execution.started': [
    v.strictObject({ attempt, pool: uuid }),
    v.strictObject({ attempt, consumer: uuid }),
  ],
  /** counts: the loss is one of the submission's deaths (sql/views/loss_reasons.sql). */
  'execution.lost': [
    v.strictObject({ attempt, pool: uuid, reason: lossReason, counts: v.boolean(), evidence }),
    v.strictObject({ attempt, consumer: uuid, reason: lossReason, counts: v.boolean(), evidence }),
  ],
  /** A report that came after the execution was lost. */
  'execution.refused': [
    v.strictObject({ attempt, pool: uuid, verdict: reportedVerdict }),
    v.strictObject({ attempt, consumer: uuid, verdict: reportedVerdict }),
  ],
  'submission.completed': [
    v.strictObject({
      attempt,
      verdict: completedVerdict,
      ...usage,
      cpu_ms: v.nullable(count),
      wall_ms: v.nullable(count),
      truncated: v.boolean(),
      compile,
      evidence,
      bytes: bytesOf('submission.completed'),
    }),
    v.strictObject({
      attempt,
      verdict: completedVerdict,
      ...usage,
      cpu_time_us: v.nullable(count),
      wall_time_us: v.nullable(count),
      stdout_truncated: v.boolean(),
      stderr_truncated: v.boolean(),
      compile,
      ...limitFacts,
      ...JUDGING_FACTS,
      evidence,
      bytes: bytesOf('submission.completed'),
    }),
  ],
  /**
   * The service failed, not the program. It has measures where a worker reported the failure, in the shape that
   * submission.completed had at the time. Of them only stdout_truncated and stderr_truncated are shown.
   */
  'submission.failed': [
    v.strictObject({
      attempt,
      verdict: v.picklist(verdictsWith('error')),
      ...v.partial(v.object(usage)).entries,
      cpu_time_us: v.nullish(count),
      wall_time_us: v.nullish(count),
      cpu_ms: v.nullish(count),
      wall_ms: v.nullish(count),
      truncated: v.optional(v.boolean()),
      stdout_truncated: v.optional(v.boolean()),
      stderr_truncated: v.optional(v.boolean()),
      compile: v.optional(compile),
      ...limitFacts,
      ...JUDGING_FACTS,
      evidence,
      bytes: bytesOf('submission.failed'),
    }),
  ],
  /** By a key of its account. attempt: the newest, or 0; it was running only if that one was neither lost nor ended. */
  'submission.cancelled': [
    v.strictObject({
      attempt,
      key_id: uuid,
      request_id: v.optional(name),
      traceparent: v.optional(v.string()),
    }),
  ],
  /** replay: an operator asked for it. */
  'delivery.requested': [
    v.strictObject({ next_at: time, replay: v.optional(v.literal(true)), ...command }),
  ],
  /** counts: the attempt took a place in the schedule. bytes: of the body, where it has to be sent again. */
  'delivery.attempted': [
    v.strictObject({
      attempt,
      consumer: v.optional(uuid),
      outcome: v.picklist(OUTCOMES),
      counts: v.boolean(),
      status: v.nullable(count),
      detail: v.nullable(v.string()),
      address: v.nullable(v.string()),
      retry_after_ms: v.nullable(measure),
      answer_bytes: count,
      answer_cut: v.boolean(),
      duration_ms: measure,
      next_at: v.optional(time),
      bytes: v.optional(bytesOf('delivery.attempted')),
    }),
  ],
  'delivery.ended': [v.strictObject({ outcome: v.picklist(DELIVERY_ENDS) })],
  'account.created': [v.strictObject({ name, ...command })],
  'tier.set': [v.strictObject({ name, per_minute: count, concurrent: count, ...command })],
  'key.created': [
    v.strictObject({
      account_id: uuid,
      tier: name,
      prefix: v.string(),
      digest: sha256,
      ...command,
    }),
  ],
  'key.rotated': [v.strictObject({ digest: sha256, others_expire_at: time, ...command })],
  'key.revoked': [v.strictObject(command)],
  /** Someone who may sign in to the console. digest: of the key; name: one has one valid key at a time. */
  'operator.created': [v.strictObject({ name, digest: sha256, operator })],
  'operator.revoked': [v.strictObject({ operator })],
  'operator.signed_in': [v.strictObject({ expires_at: time, ...in_console })],
  'operator.signed_out': [v.strictObject(in_console)],
  /** The operator saw what the account sent and what its program printed. submission_version: of its newest event then. */
  'operator.viewed': [
    v.strictObject({ submission_id: uuid, submission_version: v.optional(count), ...in_console }),
  ],
  /**
   * Tests that an account stored. groups: besides the root. files: the contents that the manifest names, each once. The
   * manifest has their SHA-256, so the digest of the manifest, in bytes, is one of everything.
   */
  'test_set.created': [
    v.strictObject({
      account_id: uuid,
      key_id: uuid,
      tests: count,
      groups: count,
      files: v.strictObject({ count, size_bytes: count }),
      bytes: bytesOf('test_set.created'),
      request_id: v.optional(name),
      traceparent: v.optional(v.string()),
    }),
  ],
  /** By a key of its account; or by an operator, because no submission had used it since a time. */
  'test_set.deleted': [
    v.strictObject({
      key_id: v.optional(uuid),
      unused_since: v.optional(time),
      operator,
      request_id: v.optional(name),
      traceparent: v.optional(v.string()),
    }),
  ],
  /** The schedule by which bytes, and months of the log, are removed. Absent: they are kept for ever. */
  'log.retention_set': [
    v.strictObject({ keep_bytes_s: v.optional(count), keep_events_s: v.optional(count), operator }),
  ],
  'payloads.purged': [
    v.strictObject({
      ended_before: time,
      submissions: count,
      payloads: count,
      size_bytes: count,
      last_id: v.optional(uuid),
      operator,
      scheduled,
    }),
  ],
  /** Somebody asked for it. submissions: each of which bytes were removed. account_id: all of this account were asked for. */
  'payloads.forgotten': [
    v.strictObject({
      submissions: v.array(uuid),
      account_id: v.optional(uuid),
      payloads: count,
      size_bytes: count,
      operator,
    }),
  ],
  /**
   * sketch: with the digests of the old chain. leaves_sketch and leaves_sha256: with the leaf hashes of the tree, in feed
   * order.
   */
  'log.detached': [
    v.strictObject({
      partition: name,
      events: count,
      sketch: name,
      leaves_sketch: v.optional(name),
      leaves_sha256: v.optional(sha256),
      operator,
      scheduled,
    }),
  ],
  /**
   * The tiles were computed from the events again. size, root: of the tree that the events give. note: the last checkpoint of
   * the log's name before, where the events do not give its root, so that a new name was necessary; of one that
   * is too long, its digest.
   */
  'log.repaired': [
    v.strictObject({
      origin: name,
      size: count,
      root: sha256,
      reason: name,
      operator: name,
      before: v.optional(v.strictObject({ origin: name, size: count, note: name })),
    }),
  ],
} as const satisfies Record<string, readonly v.GenericSchema[]>;

export type EventType = keyof typeof eventTypes;

type Last<T extends readonly unknown[]> = T extends readonly [...unknown[], infer L] ? L : never;

/** The facts of a type as its newest schema has them. */
export type FactsOf<T extends EventType> =
  Last<(typeof eventTypes)[T]> extends infer S extends v.GenericSchema ? v.InferOutput<S> : never;

/** The facts of an event of today: an optional fact may be absent only in older events. */
export type AllFactsOf<T extends EventType> = {
  [F in keyof FactsOf<T>]-?: Exclude<FactsOf<T>[F], undefined>;
};

/** An event as the view runledger.log shows it: in the newest schema, whichever it was appended with. */
export type LedgerEvent<T extends EventType = EventType> = {
  [K in T]: { stream: string; version: number; type: K; facts: FactsOf<K>; at: Date };
}[T];

export const currentSchemaOf = (type: EventType): number => eventTypes[type].length;

export const isKnown = (type: string, schema: number): boolean =>
  schemaOf(type, schema) !== undefined;

const schemaOf = (type: string, schema: number): v.GenericSchema | undefined =>
  (eventTypes as Record<string, readonly v.GenericSchema[]>)[type]?.[schema - 1];

/** What is wrong with an event's facts under the schema that it was appended with, in one line; null where nothing is. */
export function problemOf(event: { type: string; schema: number; facts: unknown }): string | null {
  const schema = schemaOf(event.type, event.schema);
  if (!schema) return `no such event: ${event.type}, schema ${event.schema}`;
  if (Array.isArray(event.facts)) return 'facts: is a list';
  if (quickly(schema)(event.facts)) return null;
  const { issues } = v.safeParse(schema, event.facts);
  if (!issues) return null;
  return issues.map((issue) => `${v.getDotPath(issue) ?? 'facts'}: ${issue.message}`).join('; ');
}

type Entries = { readonly entries: Readonly<Record<string, v.GenericSchema>> };

const factOf = (type: string, schema: number, name: string): v.GenericSchema | undefined => {
  const { entries } = (schemaOf(type, schema) as Partial<Entries> | undefined) ?? {};
  return entries && Object.hasOwn(entries, name) ? entries[name] : undefined;
};

/** Whether events of this type and schema have such a fact. */
export const hasFact = (type: string, schema: number, name: string): boolean =>
  factOf(type, schema, name) !== undefined;

/** Whether this fact of the event is not one of its schema. */
export function isOdd(
  {
    type,
    schema,
    facts,
  }: { type: string; schema: number; facts: Readonly<Record<string, unknown>> },
  name: string,
): boolean {
  const fact = factOf(type, schema, name);
  return fact === undefined || !v.is(fact, facts[name]);
}

const checks = new Map<v.GenericSchema, QuickCheck>();

function quickly(schema: v.GenericSchema): QuickCheck {
  const known = checks.get(schema);
  if (known) return known;
  const made = quickCheck(schema);
  checks.set(schema, made);
  return made;
}
