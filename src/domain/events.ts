/**
 * Every type of event, in every shape that it ever had. An event is never changed: when a type gets a new shape, its
 * schema number rises, the old one stays here, and `upgrade_facts` (sql/functions/event_types.sql) shows the old facts
 * as the newest shape has them. A test holds the two files together.
 *
 * Facts never hold bytes that a user sent: those have their size and SHA-256(salt ‖ bytes) here.
 */
import * as v from 'valibot';

const uuid = v.pipe(v.string(), v.uuid());
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const time = v.pipe(v.string(), v.isoTimestamp());
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const attempt = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Any name: the log outlives the list of languages. */
const language = v.pipe(v.string(), v.regex(/^[a-z][a-z0-9_]*$/));
const evidence = v.record(v.string(), v.unknown());
const bytes = v.record(v.string(), v.strictObject({ size: count, sha256 }));

const usage = {
  exit_code: v.nullable(v.pipe(v.number(), v.integer())),
  signal: v.nullable(v.string()),
  memory_peak_bytes: v.nullable(count),
};
const compile = v.nullable(
  v.strictObject({
    cpu_time_us: v.nullable(count),
    wall_time_us: v.nullable(count),
    memory_peak_bytes: v.nullable(count),
    exit_code: v.nullable(v.pipe(v.number(), v.integer())),
    cached: v.boolean(),
  }),
);
const verdict = v.picklist(['AC', 'WA', 'RE', 'SIG', 'TLE', 'MLE', 'OLE', 'CE']);

/** By type, then by schema number from 1. */
export const eventTypes = {
  'submission.accepted': [
    v.strictObject({
      account_id: uuid,
      key_id: uuid,
      language,
      bytes,
      compare: v.picklist(['lenient', 'exact']),
      limits: v.record(v.string(), count),
      webhook: v.optional(v.boolean()),
      idempotency_key: v.optional(uuid),
      traceparent: v.optional(v.string()),
    }),
  ],
  'execution.started': [v.strictObject({ attempt, pool: uuid })],
  /** counts: the worker itself died, so the submission may be at fault. */
  'execution.lost': [
    v.strictObject({ attempt, pool: uuid, reason: v.string(), counts: v.boolean(), evidence }),
  ],
  /** A report that came after the execution was lost. */
  'execution.refused': [v.strictObject({ attempt, pool: uuid, verdict: v.nullable(v.string()) })],
  'submission.completed': [
    v.strictObject({
      attempt,
      verdict,
      ...usage,
      cpu_ms: v.nullable(count),
      wall_ms: v.nullable(count),
      truncated: v.boolean(),
      compile,
      evidence,
      bytes,
    }),
    v.strictObject({
      attempt,
      verdict,
      ...usage,
      cpu_time_us: v.nullable(count),
      wall_time_us: v.nullable(count),
      stdout_truncated: v.boolean(),
      stderr_truncated: v.boolean(),
      compile,
      evidence,
      bytes,
    }),
  ],
  /** The service failed, not the program: whatever was measured is evidence alone. */
  'submission.failed': [v.looseObject({ attempt, verdict: v.literal('IE'), evidence, bytes })],
  'delivery.requested': [v.looseObject({ next_at: time })],
  'delivery.attempted': [v.looseObject({ outcome: v.string() })],
  'delivery.ended': [v.looseObject({ outcome: v.string() })],
  'account.created': [v.strictObject({ name: v.string() })],
  'tier.set': [v.strictObject({ name: v.string(), per_minute: count, concurrent: count })],
  'key.created': [
    v.strictObject({ account_id: uuid, tier: v.string(), prefix: v.string(), digest: sha256 }),
  ],
  'key.rotated': [v.strictObject({ digest: sha256, others_expire_at: time })],
  'key.revoked': [v.strictObject({})],
  'payloads.purged': [
    v.strictObject({ ended_before: time, submissions: count, payloads: count, size_bytes: count }),
  ],
  'log.detached': [v.strictObject({ partition: v.string(), events: count, sketch: v.string() })],
} as const satisfies Record<string, readonly v.GenericSchema[]>;

export type EventType = keyof typeof eventTypes;

type Last<T extends readonly unknown[]> = T extends readonly [...unknown[], infer L] ? L : never;

/** The facts of a type as its newest schema has them. */
export type FactsOf<T extends EventType> =
  Last<(typeof eventTypes)[T]> extends infer S extends v.GenericSchema ? v.InferOutput<S> : never;

/** An event as the view runledger.log shows it: whatever its schema was, its facts have the newest. */
export type LedgerEvent<T extends EventType = EventType> = {
  [K in T]: { stream: string; version: number; type: K; facts: FactsOf<K>; at: Date };
}[T];

export const currentSchemaOf = (type: EventType): number => eventTypes[type].length;

export const isKnown = (type: string, schema: number): boolean =>
  schemaOf(type, schema) !== undefined;

const schemaOf = (type: string, schema: number): v.GenericSchema | undefined =>
  (eventTypes as Record<string, readonly v.GenericSchema[]>)[type]?.[schema - 1];

/** What is wrong with an event's facts under the schema that it was appended with; null when nothing is. */
export function faultOf(event: { type: string; schema: number; facts: unknown }): string | null {
  const schema = schemaOf(event.type, event.schema);
  if (!schema) return `no such event: ${event.type}, schema ${event.schema}`;
  const parsed = v.safeParse(schema, event.facts);
  if (parsed.success) return null;
  return parsed.issues
    .map((issue) => `${v.getDotPath(issue) ?? 'facts'}: ${issue.message}`)
    .join('; ');
}
