/**
 * A submission's life, as a pure decider: what a command comes to in each state (decide), and what an event makes of the
 * state (evolve). SQL decides and folds on the write path, where the locks are; a test drives both with the same random
 * histories, so this is the place to read how it goes.
 *
 *   pending ──start──▶ running ──complete──▶ completed | error
 *      ▲                  │
 *      └──── release ─────┘        a loss too many, or waiting too long: error
 */

export type State = {
  readonly status: 'none' | 'pending' | 'running' | 'completed' | 'error';
  readonly version: number;
  readonly webhook: boolean;
  /** Executions started so far; the number of the newest. */
  readonly attempts: number;
  /** Losses that count: a worker died while it ran this. */
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
  | { readonly kind: 'release'; readonly consumer: string; readonly counts: boolean }
  | { readonly kind: 'expire' };

export type Event = {
  readonly type:
    | 'submission.accepted'
    | 'execution.started'
    | 'execution.lost'
    | 'execution.refused'
    | 'submission.completed'
    | 'submission.failed'
    | 'delivery.requested';
  readonly facts: {
    readonly attempt?: number;
    readonly consumer?: string;
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
  deaths: 0,
  consumer: null,
  verdict: null,
};

/** The third worker that dies over a submission is the last; so is the twentieth loss of any kind. */
export const DEATHS_ALLOWED = 3;
export const ATTEMPTS_ALLOWED = 20;

/** The events that a command appends; none where there is nothing to do. */
export function decide(state: State, command: Command): Event[] {
  switch (command.kind) {
    case 'submit':
      return state.status === 'none'
        ? [{ type: 'submission.accepted', facts: { webhook: command.webhook } }]
        : [];
    case 'start':
      // anything else: the job is stale
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
  // told again, because the first answer was lost with the connection
  if (holds && state.status !== 'pending') return [];
  return [{ type: 'execution.refused', facts: { attempt, consumer, verdict } }];
}

function decideRelease(state: State, command: Command & { kind: 'release' }): Event[] {
  const { consumer, counts } = command;
  if (state.status !== 'running' || state.consumer !== consumer) return [];
  const lost: Event = {
    type: 'execution.lost',
    facts: { attempt: state.attempts, consumer, counts },
  };
  const after = evolve(state, lost);
  const hopeless = after.deaths >= DEATHS_ALLOWED || after.attempts >= ATTEMPTS_ALLOWED;
  return hopeless ? [lost, ...fail(after)] : [lost];
}

const fail = (state: State, attempt = state.attempts): Event[] =>
  end(state, 'submission.failed', { attempt, verdict: 'IE' });

function end(state: State, type: Event['type'], facts: Event['facts']): Event[] {
  const ended: Event = { type, facts };
  return state.webhook ? [ended, { type: 'delivery.requested', facts: {} }] : [ended];
}

export function evolve(state: State, { type, facts }: Event): State {
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
    case 'execution.lost':
      return {
        ...next,
        status: 'pending',
        consumer: null,
        deaths: state.deaths + (facts.counts ? 1 : 0),
      };
    case 'submission.completed':
      return { ...next, status: 'completed', verdict: facts.verdict ?? null };
    case 'submission.failed':
      return { ...next, status: 'error', verdict: 'IE' };
    case 'execution.refused':
    case 'delivery.requested':
      return next;
  }
}
