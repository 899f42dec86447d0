/**
 * A second, independent model of a submission's life, as a pure decider: the events that a command appends in each state
 * (decide), and the state after an event (evolve). SQL decides and folds (sql/functions/next_submission.sql,
 * release_many.sql); tests drive both with the same histories and compare.
 *
 *   pending ──start──▶ running ──complete──▶ completed | error
 *      ▲                  │
 *      └──── release ─────┘        a loss too many, or waiting too long: error
 *
 *   pending, running ──cancel──▶ cancelled
 */
import type { LossReason } from '../../src/domain/loss_reasons.ts';

export type State = {
  readonly status: 'none' | 'pending' | 'running' | 'completed' | 'error' | 'cancelled';
  readonly version: number;
  readonly webhook: boolean;
  /** Executions started so far; the number of the newest. */
  readonly attempts: number;
  /** Losses by reason. */
  readonly losses: Readonly<Partial<Record<LossReason, number>>>;
  /** Losses that count against the submission. */
  readonly deaths: number;
  /** The consumer that runs it now, or ran it to its end. */
  readonly consumer: string | null;
  readonly verdict: string | null;
};

export type Command =
  | { readonly kind: 'submit'; readonly webhook: boolean }
  | { readonly kind: 'start'; readonly consumer: string }
  | {
      readonly kind: 'complete';
      readonly consumer: string;
      readonly attempt: number;
      readonly status: 'completed' | 'error';
      readonly verdict: string;
    }
  | { readonly kind: 'release'; readonly consumer: string; readonly reason: LossReason }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'expire' };

export type Event = {
  readonly type:
    | 'submission.accepted'
    | 'execution.started'
    | 'execution.lost'
    | 'execution.refused'
    | 'submission.completed'
    | 'submission.failed'
    | 'submission.cancelled'
    | 'delivery.requested'
    | 'delivery.attempted'
    | 'delivery.ended';
  readonly facts: {
    readonly attempt?: number;
    readonly consumer?: string;
    readonly reason?: LossReason;
    readonly counts?: boolean;
    readonly verdict?: string | null;
    readonly webhook?: boolean;
  };
};

export const NEW: State = {
  status: 'none',
  version: 0,
  webhook: false,
  attempts: 0,
  losses: {},
  deaths: 0,
  consumer: null,
  verdict: null,
};

/** Whether a loss counts, and how many end the submission: of all that count together, or else of that very reason. */
export const REASONS: Readonly<Record<LossReason, { counts: boolean; ends_after: number | null }>> =
  {
    worker_died: { counts: true, ends_after: 3 },
    launcher_died: { counts: true, ends_after: 3 },
    execution_failed: { counts: true, ends_after: 3 },
    worker_silent: { counts: false, ends_after: 20 },
    database_away: { counts: false, ends_after: null },
    answer_lost: { counts: false, ends_after: null },
    no_slot: { counts: false, ends_after: null },
    shutdown: { counts: false, ends_after: null },
  };

/** The events that a command appends; none where there is nothing to do. */
export function decide(state: State, command: Command): Event[] {
  switch (command.kind) {
    case 'submit':
      return state.status === 'none'
        ? [{ type: 'submission.accepted', facts: { webhook: command.webhook } }]
        : [];
    case 'start':
      // In any other status the job is stale.
      return state.status === 'pending'
        ? [
            {
              type: 'execution.started',
              facts: { attempt: state.attempts + 1, consumer: command.consumer },
            },
          ]
        : [];
    case 'complete':
      return decideComplete(state, command);
    case 'release':
      return decideRelease(state, command);
    case 'expire':
      return state.status === 'pending' ? fail(state) : [];
    case 'cancel':
      return state.status === 'pending' || state.status === 'running'
        ? end(state, 'submission.cancelled', { attempt: state.attempts })
        : [];
  }
}

function decideComplete(state: State, command: Command & { kind: 'complete' }): Event[] {
  const { consumer, attempt, status, verdict } = command;
  if (state.status === 'none') return [];
  const holds = state.consumer === consumer && state.attempts === attempt;
  if (state.status === 'running' && holds)
    return status === 'error'
      ? fail(state, attempt)
      : end(state, 'submission.completed', { attempt, verdict });
  // A repeated report: the answer to the first was lost with the connection.
  if (holds && (state.status === 'completed' || state.status === 'error')) return [];
  return [{ type: 'execution.refused', facts: { attempt, consumer, verdict } }];
}

function decideRelease(state: State, command: Command & { kind: 'release' }): Event[] {
  const { consumer, reason } = command;
  if (state.status !== 'running' || state.consumer !== consumer) return [];
  const { counts, ends_after } = REASONS[reason];
  const lost: Event = {
    type: 'execution.lost',
    facts: { attempt: state.attempts, consumer, reason, counts },
  };
  const after = evolve(state, lost);
  const so_many = counts ? after.deaths : after.losses[reason]!;
  return ends_after !== null && so_many >= ends_after ? [lost, ...fail(after)] : [lost];
}

const fail = (state: State, attempt = state.attempts): Event[] =>
  end(state, 'submission.failed', { attempt, verdict: 'IE' });

function end(state: State, type: Event['type'], facts: Event['facts']): Event[] {
  const ended: Event = { type, facts };
  return state.webhook ? [ended, { type: 'delivery.requested', facts: {} }] : [ended];
}

/** The statuses in which an event may come. */
const MAY_COME: Readonly<Record<Event['type'], readonly State['status'][]>> = {
  'submission.accepted': ['none'],
  'execution.started': ['pending'],
  'execution.lost': ['running'],
  'execution.refused': ['pending', 'running', 'completed', 'error', 'cancelled'],
  'submission.completed': ['running'],
  'submission.failed': ['pending', 'running'],
  'submission.cancelled': ['pending', 'running'],
  'delivery.requested': ['completed', 'error', 'cancelled'],
  'delivery.attempted': ['completed', 'error', 'cancelled'],
  'delivery.ended': ['completed', 'error', 'cancelled'],
};

export const mayCome = (status: State['status'], type: string): boolean =>
  (MAY_COME as Record<string, readonly State['status'][]>)[type]?.includes(status) ?? false;

export function evolve(state: State, { type, facts }: Event): State {
  if (!mayCome(state.status, type)) throw new Error(`${type} cannot follow in ${state.status}`);
  const next = { ...state, version: state.version + 1 };
  switch (type) {
    case 'submission.accepted':
      return { ...next, status: 'pending', webhook: facts.webhook ?? false };
    case 'execution.started':
      return {
        ...next,
        status: 'running',
        attempts: state.attempts + 1,
        consumer: facts.consumer ?? null,
      };
    case 'execution.lost': {
      const { reason, counts } = facts;
      return {
        ...next,
        status: 'pending',
        consumer: null,
        losses: { ...state.losses, [reason!]: (state.losses[reason!] ?? 0) + 1 },
        deaths: state.deaths + (counts ? 1 : 0),
      };
    }
    case 'submission.completed':
      return { ...next, status: 'completed', verdict: facts.verdict ?? null };
    case 'submission.failed':
      return { ...next, status: 'error', verdict: 'IE' };
    case 'submission.cancelled':
      return { ...next, status: 'cancelled' };
    case 'execution.refused':
    case 'delivery.requested':
    case 'delivery.attempted':
    case 'delivery.ended':
      return next;
  }
}
