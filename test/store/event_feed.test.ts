/** What the feed of happenings asks, and when, where the database is slow or away. */
import t, { type Test } from 'tap';
import type { Guard } from '../../src/db.ts';
import { createEventFeed, type Follower, type Update } from '../../src/store/event_feed.ts';
import { jumpingClock } from '../support/clock.ts';
import { until } from '../support/eventually.ts';
import { idOf, newId, start, submission, world } from './world.ts';

/** A feed whose questions go through `guard`, and a submission with one event. */
async function scene(t: Test, guard: Guard) {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const feed = createEventFeed(w.web, (error) => t.fail(String(error)), guard);
  t.teardown(() => feed.close());
  const submitOne = async () =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const startOne = (id: string) => start(executions, id);
  return { w, feed, submitOne, startOne };
}

/** Remembers the types of the events that it gets. */
function follower() {
  const types: string[] = [];
  const onUpdate = ({ events }: Update) => void types.push(...events.map(({ type }) => type));
  return { types, follower: { onUpdate, onOutput: () => {} } satisfies Follower };
}

/** With a pause of nine times as long, the event would not come before `until` gives up. */
const LONG_MS = 30_000;

t.test('a question that took long is soon followed by the next one', async (t) => {
  const jump = jumpingClock(t);
  let questions = 0;
  const s = await scene(t, (work) => {
    questions += 1;
    if (questions === 1) jump(LONG_MS);
    return work();
  });
  const id = await s.submitOne();
  const { types, follower: one } = follower();
  s.feed.follow(id, (await s.feed.read(id, 0))!, one);
  await until(() => questions > 0);
  await s.startOne(id);
  await until(() => types.length > 0);
  t.same(types, ['execution.started']);
});

t.test('so is one that failed in the end', async (t) => {
  const jump = jumpingClock(t);
  let questions = 0;
  const s = await scene(t, async (work) => {
    questions += 1;
    if (questions > 1) return work();
    jump(LONG_MS);
    throw Object.assign(new Error('the connection is lost'), { code: 'CONNECTION_CLOSED' });
  });
  const id = await s.submitOne();
  const { types, follower: one } = follower();
  s.feed.follow(id, (await s.feed.read(id, 0))!, one);
  await s.startOne(id);
  await until(() => types.length > 0);
  t.same(types, ['execution.started']);
});

/** Holds the answer to the question with this number until the test lets it go on. */
function held(number: number): { guard: Guard; answered: Promise<void>; goOn(): void } {
  const answered = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let questions = 0;
  const guard: Guard = async (work) => {
    questions += 1;
    const is_held = questions === number;
    const rows = await work();
    if (!is_held) return rows;
    answered.resolve();
    await released.promise;
    return rows;
  };
  return { guard, answered: answered.promise, goOn: released.resolve };
}

t.test('one that comes with an older version during a question misses no event', async (t) => {
  const { guard, answered, goOn } = held(1);
  const s = await scene(t, guard);
  const id = await s.submitOne();
  const accepted = (await s.feed.read(id, 0))!;
  await s.startOne(id);
  const started = (await s.feed.read(id, 0))!;
  const [early, late] = [follower(), follower()];
  // Without its events, so that no output is asked for.
  s.feed.follow(id, { ...started, events: [] }, early.follower);
  await answered;
  s.feed.follow(id, accepted, late.follower);
  goOn();
  await s.w.cancel(id);
  await until(() => late.types.includes('submission.cancelled'));
  t.same(late.types, ['execution.started', 'submission.cancelled']);
  t.same(early.types, ['submission.cancelled']);
});

t.test('so does one that comes after the last other one has left', async (t) => {
  const first = held(1);
  const second = held(2);
  const s = await scene(t, (work) => second.guard(() => first.guard(work)));
  const id = await s.submitOne();
  const accepted = (await s.feed.read(id, 0))!;
  // As many as one question asks for: it is in the next one.
  for (let n = 0; n < 500; n++) s.feed.follow(newId(), accepted, follower().follower);
  const leave = s.feed.follow(id, accepted, follower().follower);
  await s.startOne(id);
  await first.answered;
  leave();
  first.goOn();
  await second.answered;
  const late = follower();
  s.feed.follow(id, accepted, late.follower);
  second.goOn();
  await s.w.cancel(id);
  await until(() => late.types.includes('submission.cancelled'));
  t.same(late.types, ['execution.started', 'submission.cancelled']);
});
