/** Every state and every command: given events, when a command, then events. */
import t from 'tap';
import {
  type Command,
  decide,
  type Event,
  evolve,
  NEW,
  type State,
} from '../../src/domain/state.ts';

const accepted = (webhook = false): Event => ({ type: 'submission.accepted', facts: { webhook } });
const started = (attempt: number, consumer = 'mine'): Event => ({
  type: 'execution.started',
  facts: { attempt, consumer },
});
const lost = (attempt: number, counts: boolean, consumer = 'mine'): Event => ({
  type: 'execution.lost',
  facts: { attempt, consumer, counts },
});
const refused = (attempt: number, consumer = 'mine'): Event => ({
  type: 'execution.refused',
  facts: { attempt, consumer, verdict: 'AC' },
});
const completed = (attempt: number): Event => ({
  type: 'submission.completed',
  facts: { attempt, verdict: 'AC' },
});
const failed = (attempt: number): Event => ({
  type: 'submission.failed',
  facts: { attempt, verdict: 'IE' },
});
const requested: Event = { type: 'delivery.requested', facts: {} };

const fold = (events: readonly Event[]): State => events.reduce(evolve, NEW);

const given: Record<string, Event[]> = {
  none: [],
  pending: [accepted()],
  'pending again': [accepted(), started(1), lost(1, false)],
  'pending after two deaths': [accepted(), started(1), lost(1, true), started(2), lost(2, true)],
  running: [accepted(), started(1)],
  'running elsewhere': [accepted(), started(1, 'other')],
  'running, a webhook asked for': [accepted(true), started(1)],
  'running after two deaths': [
    accepted(),
    started(1),
    lost(1, true),
    started(2),
    lost(2, true),
    started(3),
  ],
  completed: [accepted(), started(1), completed(1)],
  'completed elsewhere': [accepted(), started(1, 'other'), completed(1)],
  error: [accepted(), failed(0)],
};

const complete: Command = {
  kind: 'complete',
  consumer: 'mine',
  attempt: 1,
  status: 'completed',
  verdict: 'AC',
};
const when: Record<string, Command> = {
  submit: { kind: 'submit', webhook: false },
  start: { kind: 'start', consumer: 'mine' },
  complete,
  'complete the third': { ...complete, attempt: 3 },
  'complete with a fault': { ...complete, status: 'error', verdict: 'IE' },
  release: { kind: 'release', consumer: 'mine', counts: false },
  'release, dead': { kind: 'release', consumer: 'mine', counts: true },
  expire: { kind: 'expire' },
};

const refusedFault: Event = {
  type: 'execution.refused',
  facts: { attempt: 1, consumer: 'mine', verdict: 'IE' },
};
const late = {
  complete: [refused(1)],
  'complete the third': [refused(3)],
  'complete with a fault': [refusedFault],
};

/** What is not named appends nothing. */
const then: Record<string, Partial<Record<keyof typeof when, Event[]>>> = {
  none: { submit: [accepted()] },
  pending: { start: [started(1)], expire: [failed(0)], ...late },
  'pending again': { start: [started(2)], expire: [failed(1)], ...late },
  'pending after two deaths': { start: [started(3)], expire: [failed(2)], ...late },
  running: {
    complete: [completed(1)],
    'complete the third': [refused(3)],
    'complete with a fault': [failed(1)],
    release: [lost(1, false)],
    'release, dead': [lost(1, true)],
  },
  'running elsewhere': late,
  'running, a webhook asked for': {
    complete: [completed(1), requested],
    'complete the third': [refused(3)],
    'complete with a fault': [failed(1), requested],
    release: [lost(1, false)],
    'release, dead': [lost(1, true)],
  },
  'running after two deaths': {
    complete: [refused(1)],
    'complete the third': [completed(3)],
    'complete with a fault': [refusedFault],
    release: [lost(3, false)],
    'release, dead': [lost(3, true), failed(3)],
  },
  completed: { 'complete the third': [refused(3)] },
  'completed elsewhere': late,
  error: late,
};

for (const [state, events] of Object.entries(given)) {
  t.test(`given ${state}`, async (t) => {
    for (const [name, command] of Object.entries(when)) {
      t.same(decide(fold(events), command), then[state]![name] ?? [], `when ${name}`);
    }
  });
}

t.test('what the states are', async (t) => {
  t.match(fold(given['pending']!), { status: 'pending', version: 1, attempts: 0 });
  t.match(fold(given['running after two deaths']!), {
    status: 'running',
    attempts: 3,
    deaths: 2,
    consumer: 'mine',
    version: 6,
  });
  t.match(fold(given['completed']!), { status: 'completed', verdict: 'AC' });
  t.match(fold(given['error']!), { status: 'error', verdict: 'IE', attempts: 0 });
});

t.test('losses that do not count end at the twentieth attempt', async (t) => {
  const events = [accepted()];
  for (let attempt = 1; attempt < 20; attempt++)
    events.push(started(attempt), lost(attempt, false));
  events.push(started(20));
  t.same(decide(fold(events), when['release']!), [lost(20, false), failed(20)]);
});
