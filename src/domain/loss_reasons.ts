/**
 * Why an execution can end without a report. SQL decides what each means (sql/views/loss_reasons.sql); these are the
 * names, for types and schemas, and a test holds the two lists together.
 */
export const LOSS_REASONS = [
  'worker_died',
  'launcher_died',
  'execution_failed',
  'worker_silent',
  'database_away',
  'answer_lost',
  'no_slot',
  'shutdown',
] as const;

export type LossReason = (typeof LOSS_REASONS)[number];
