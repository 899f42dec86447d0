/** The oracle in every state and with every command: given events, when a command, then events. And SQL compared with it. */
import t from 'tap';
import { eventTypes } from '../../src/domain/events.ts';
import { LOSS_REASONS, type LossReason } from '../../src/domain/loss_reasons.ts';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import {
  type Command,
  decide,
  type Event,
  evolve,
  mayCome,
  NEW,
  REASONS,
  type State,
} from './oracle.ts';
import { idOf, start, submission, world } from './world.ts';

const accepted = (webhook = false): Event => ({ type: 'submission.accepted', facts: { webhook } });
const started = (attempt: number, consumer = 'mine'): Event => ({
  type: 'execution.started',
  facts: { attempt, consumer },
});
const lostFor = (attempt: number, reason: LossReason, consumer = 'mine'): Event => ({
  type: 'execution.lost',
  facts: { attempt, consumer, reason, counts: REASONS[reason].counts },
});
const lost = (attempt: number, counts: boolean): Event =>
  lostFor(attempt, counts ? 'worker_died' : 'shutdown');
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
const cancelled = (attempt: number): Event => ({
  type: 'submission.cancelled',
  facts: { attempt },
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
  'running, with a webhook': [accepted(true), started(1)],
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
  cancelled: [accepted(), started(1), cancelled(1)],
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
  'complete with IE': { ...complete, status: 'error', verdict: 'IE' },
  release: { kind: 'release', consumer: 'mine', reason: 'shutdown' },
  'release, dead': { kind: 'release', consumer: 'mine', reason: 'worker_died' },
  expire: { kind: 'expire' },
  cancel: { kind: 'cancel' },
};

const refusedIE: Event = {
  type: 'execution.refused',
  facts: { attempt: 1, consumer: 'mine', verdict: 'IE' },
};
const late = {
  complete: [refused(1)],
  'complete the third': [refused(3)],
  'complete with IE': [refusedIE],
};

/** A command that is not named appends nothing. */
const then: Record<string, Partial<Record<keyof typeof when, Event[]>>> = {
  none: { submit: [accepted()] },
  pending: { start: [started(1)], expire: [failed(0)], cancel: [cancelled(0)], ...late },
  'pending again': { start: [started(2)], expire: [failed(1)], cancel: [cancelled(1)], ...late },
  'pending after two deaths': {
    start: [started(3)],
    expire: [failed(2)],
    cancel: [cancelled(2)],
    ...late,
  },
  running: {
    complete: [completed(1)],
    'complete the third': [refused(3)],
    'complete with IE': [failed(1)],
    release: [lost(1, false)],
    'release, dead': [lost(1, true)],
    cancel: [cancelled(1)],
  },
  'running elsewhere': { ...late, cancel: [cancelled(1)] },
  'running, with a webhook': {
    complete: [completed(1), requested],
    'complete the third': [refused(3)],
    'complete with IE': [failed(1), requested],
    release: [lost(1, false)],
    'release, dead': [lost(1, true)],
    cancel: [cancelled(1), requested],
  },
  'running after two deaths': {
    complete: [refused(1)],
    'complete the third': [completed(3)],
    'complete with IE': [refusedIE],
    release: [lost(3, false)],
    'release, dead': [lost(3, true), failed(3)],
    cancel: [cancelled(3)],
  },
  completed: { 'complete the third': [refused(3)] },
  'completed elsewhere': late,
  error: late,
  cancelled: late,
};

for (const [state, events] of Object.entries(given)) {
  t.test(`given ${state}`, async (t) => {
    for (const [name, command] of Object.entries(when)) {
      t.same(decide(fold(events), command), then[state]![name] ?? [], `when ${name}`);
    }
  });
}

t.test('the states after these events', async (t) => {
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

t.test('losses that do not count have an end of their own, or none', async (t) => {
  const after = (reason: LossReason, losses: number) => {
    const events = [accepted()];
    for (let attempt = 1; attempt < losses; attempt++)
      events.push(started(attempt), lostFor(attempt, reason));
    events.push(started(losses));
    return decide(fold(events), { kind: 'release', consumer: 'mine', reason });
  };
  t.same(after('worker_silent', 19), [lostFor(19, 'worker_silent')]);
  t.same(after('worker_silent', 20), [lostFor(20, 'worker_silent'), failed(20)]);
  t.same(after('shutdown', 40), [lostFor(40, 'shutdown')]);
});

t.test('SQL allows the same events in each status, and has the same reasons', async (t) => {
  const { db } = await world(t);
  const statuses = ['none', ...STATUS_NAMES] as const;
  for (const status of statuses)
    for (const type of Object.keys(eventTypes)) {
      const [row] =
        await db`select runledger.next_status(${status === 'none' ? null : status}, ${type}) as next`;
      t.equal(row!['next'] !== null, mayCome(status, type), `${type} in ${status}`);
    }
  const rows = await db`select reason, counts, ends_after from runledger.loss_reasons`;
  t.same(
    Object.fromEntries(
      rows.map(({ reason, counts, ends_after }) => [reason, { counts, ends_after }]),
    ),
    REASONS,
  );
  t.same(
    rows.map(({ reason }) => reason),
    LOSS_REASONS,
    'and the types have them, too',
  );
});

t.test('SQL ends a submission at the same loss', async (t) => {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const consumer = await w.consumer();
  const histories: LossReason[][] = [
    ...LOSS_REASONS.map((reason) => Array<LossReason>(22).fill(reason)),
    // Two deaths and 19 silences, and then a loss that ends the submission: by silence, and by deaths.
    [
      'worker_died',
      'launcher_died',
      ...Array<LossReason>(19).fill('worker_silent'),
      'shutdown',
      'no_slot',
      'worker_silent',
    ],
    [
      'worker_died',
      ...Array<LossReason>(19).fill('worker_silent'),
      'launcher_died',
      'answer_lost',
      'execution_failed',
    ],
  ];
  for (const history of histories) {
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    let state = fold([accepted()]);
    for (const reason of history) {
      const begun = await start(consumer.executions, id);
      const begins = decide(state, { kind: 'start', consumer: consumer.id });
      t.equal(begun !== null, begins.length > 0, `starts after ${state.attempts} attempts`);
      if (begun === null) break;
      state = begins.reduce(evolve, state);
      await consumer.executions.release([id], reason);
      state = decide(state, { kind: 'release', consumer: consumer.id, reason }).reduce(
        evolve,
        state,
      );
      const [row] =
        await w.db`select status, attempts, deaths, version from runledger.submissions where id = ${id}`;
      const { status, attempts, deaths, version } = state;
      t.same(row, { status, attempts, deaths, version }, `${reason}, attempt ${attempts}`);
    }
  }
});

t.test('an unknown reason is rejected', async (t) => {
  const w = await world(t);
  const consumer = await w.consumer();
  await t.rejects(consumer.executions.release([], 'stopped' as LossReason), { code: 'RL400' });
});
