import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { ResultRow } from '../../src/domain/record.ts';
import { CHANNELS } from '../../src/store/channels.ts';
import { createResults } from '../../src/store/results.ts';
import { createWaiters } from '../../src/store/waiters.ts';
import { jumpingClock, replaceClock } from '../support/clock.ts';
import { until } from '../support/eventually.ts';
import { idOf, newId, outcome, start, submission, world } from './world.ts';

const LONG = 300_000;

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const results = createResults(w.web);
  const faults: unknown[] = [];
  const asked: string[][] = [];
  /** Those that were asked for with their outputs. */
  const whole = new Set<string>();
  const watched = {
    ended: (ids: readonly string[], outputs: boolean) => {
      asked.push([...ids]);
      if (outputs) for (const id of ids) whole.add(id);
      return results.ended(ids, outputs);
    },
  };
  const heard: string[] = [];
  const waiters = await createWaiters(w.web, watched, (error) => faults.push(error), {
    channels: { other: (payload) => heard.push(payload) },
    onHearing: () => heard.push('hearing'),
  });
  t.teardown(() => waiters.close());
  const submitOne = async () =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const end = async (id: string) => {
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  };
  return { w, digest, results, waiters, submitOne, end, faults, asked, whole, heard };
}

t.test('the record comes when the submission ends', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne();
  const waiting = s.waiters.wait(id, { timeout_ms: LONG });
  await s.end(id);
  t.match(await waiting, { id, status: 'completed', verdict: 'AC', stdout: Buffer.from('1\n') });
  t.equal(s.waiters.count, 0);
});

t.test('a submission that ended before is answered at once, to every waiter', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne();
  await s.end(id);
  const both = await Promise.all([1, 2].map(() => s.waiters.wait(id, { timeout_ms: LONG })));
  t.match(both, [{ id }, { id }]);
});

t.test(
  'a wait whose time is up, or that is given up, answers null and leaves nothing behind',
  async (t) => {
    const s = await scene(t);
    const id = await s.submitOne();
    // If its time never came, it would get the record.
    const late = setTimeout(() => s.end(id), 20_000);
    t.equal(await s.waiters.wait(id, { timeout_ms: 1 }), null);
    clearTimeout(late);
    const leaving = new AbortController();
    const waiting = s.waiters.wait(id, { timeout_ms: LONG, signal: leaving.signal });
    t.equal(s.waiters.count, 1);
    leaving.abort();
    t.equal(s.waiters.count, 0, 'at once');
    t.equal(await waiting, null);
    t.equal(
      await s.waiters.wait(id, { timeout_ms: LONG, signal: leaving.signal }),
      null,
      'given up before it began',
    );
    t.equal(s.waiters.count, 0);
  },
);

t.test('the poll makes up for a lost hint', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne();
  const waiting = s.waiters.wait(id, { timeout_ms: LONG });
  await s.w.web`select 1`;
  await endUnheard(s, id);
  t.match(await waiting, { id, status: 'error', verdict: 'IE' });
});

/** It ends without a NOTIFY. */
async function endUnheard(s: Awaited<ReturnType<typeof scene>>, id: string): Promise<void> {
  await start((await s.w.consumer()).executions, id);
  await s.w.db`select runledger.end_submissions(${`{${id}}`}::text::uuid[], now(),
    array['submission.failed'], array['{"verdict": "IE", "attempt": 1, "evidence": {}}'::jsonb])`;
}

t.test('a poll that failed after a long time is soon followed by the next one', async (t) => {
  const s = await scene(t);
  const jump = jumpingClock(t);
  let polls = 0;
  const ended = async (ids: readonly string[], outputs: boolean) => {
    polls += 1;
    if (polls > 1) return s.results.ended(ids, outputs);
    // With a pause of nine times as long, the next one would not come before the time of the wait is up.
    jump(30_000);
    throw Object.assign(new Error('the connection is lost'), { code: 'CONNECTION_CLOSED' });
  };
  const waiters = await createWaiters(s.w.web, { ended }, (error) => t.fail(String(error)));
  t.teardown(() => waiters.close());
  while (waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
  const id = await s.submitOne();
  const waiting = waiters.wait(id, { timeout_ms: 150_000, unborn: true });
  await endUnheard(s, id);
  t.match(await waiting, { id, status: 'error' });
});

t.test('no poll begins while another goes on, nor right behind a slow one', async (t) => {
  const s = await scene(t);
  const jump = jumpingClock(t);
  let polls = 0;
  const slow = Promise.withResolvers<[]>();
  const ended = () => {
    polls += 1;
    return slow.promise;
  };
  const waiters = await createWaiters(s.w.web, { ended }, (error) => t.fail(String(error)));
  t.teardown(() => waiters.close());
  while (waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
  const waiting = waiters.wait(newId(), { timeout_ms: 600_000, unborn: true });
  jump(2_000);
  await until(async () => polls === 1);
  // Ticks of the timer come during the question, and each finds that a poll would be due.
  for (let ticks = 0; ticks < 4; ticks++) {
    jump(2_000);
    await new Promise((wake) => setTimeout(wake, 100));
  }
  slow.resolve([]);
  await new Promise((wake) => setTimeout(wake, 10));
  t.equal(polls, 1);
  jump(2_000);
  await until(async () => polls === 2);
  jump(600_000);
  t.equal(await waiting, null);
});

t.test('what ended while nothing was heard is found when it is heard again', async (t) => {
  const s = await scene(t);
  while (s.waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
  // No other poll comes.
  const now = performance.now();
  replaceClock(t, () => now);
  const id = await s.submitOne();
  const waiting = s.waiters.wait(id, { timeout_ms: LONG, unborn: true });
  await endUnheard(s, id);
  t.same(s.asked, []);
  await s.w.connect(s.w.database.superuser_url, 1)`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query = ${`listen "${CHANNELS.done}"`}`;
  t.match(await waiting, { id, status: 'error' });
});

t.test('a lost LISTEN connection is replaced, even if that takes several attempts', async (t) => {
  const s = await scene(t);
  const db = s.w.connect(s.w.database.superuser_url, 1);
  const listening = async () =>
    (
      await db`select pid from pg_stat_activity where datname = ${s.w.database.name} and query = ${`listen "${CHANNELS.done}"`}`
    ).map((row) => Number(row['pid']));
  await until(async () => (await listening()).length === 1);
  const [first] = await listening();
  // the first attempts to connect fail
  await db.unsafe(`alter database ${s.w.database.name} connection limit 0`);
  await db`select pg_terminate_backend(${first!})`;
  await until(async () => {
    const [row] =
      await db`select count(*)::integer as n from pg_stat_activity where pid = ${first!}`;
    return row!['n'] === 0;
  });
  await new Promise((wake) => setTimeout(wake, 600));
  await db.unsafe(`alter database ${s.w.database.name} connection limit -1`);
  await until(async () => (await listening()).length === 1);
  t.not((await listening())[0], first);
  void s.waiters.wait(await s.submitOne(), { timeout_ms: 10 * LONG });
  // A poll asks for both submissions, and a hint for this one alone, unless a poll comes at the same moment.
  const endedByHint = async () => {
    const id = await s.submitOne();
    const waiting = s.waiters.wait(id, { timeout_ms: LONG });
    await until(async () => s.asked.flat().includes(id));
    const before = s.asked.length;
    await s.end(id);
    t.match(await waiting, { id });
    return s.asked.slice(before).some((ids) => ids.length === 1 && ids[0] === id);
  };
  let by_hint = false;
  for (let tries = 0; tries < 20 && !by_hint; tries++) by_hint = await endedByHint();
  t.ok(by_hint, 'by the hint and not by the next poll');
  await db`select pg_notify('other', 'word')`;
  await until(async () => s.heard.includes('word'));
  const times = s.heard.filter((what) => what === 'hearing').length;
  t.ok(times >= 2, 'other channels are heard on it, too');
});

t.test('those that have waited for long did not come lately', async (t) => {
  const s = await scene(t);
  let now = performance.now();
  replaceClock(t, () => now);
  const gone = new AbortController();
  const ids = [randomUUID(), randomUUID(), randomUUID()];
  const wait = (id: string, signal?: AbortSignal) =>
    s.waiters.wait(id, { timeout_ms: 3_600_000, unborn: true, ...(signal && { signal }) });
  void wait(ids[0]!);
  const leaves = wait(ids[1]!, gone.signal);
  t.equal(s.waiters.lately, 2);
  gone.abort();
  await leaves;
  t.equal(s.waiters.lately, 1);
  now += 500;
  t.equal(s.waiters.lately, 0);
  void wait(ids[2]!);
  t.match(s.waiters, { lately: 1, count: 2 });
});

t.test('10,000 waiters cost one timer and few queries', async (t) => {
  const s = await scene(t);
  const timers = () =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name === 'Immediate')
      .length;
  const before = timers();
  const ids = Array.from({ length: 10_000 }, () => newId());
  const gone = new AbortController();
  const all: Promise<ResultRow | null>[] = ids.map((id) =>
    s.waiters.wait(id, { timeout_ms: LONG, signal: gone.signal }),
  );
  t.equal(s.waiters.count, 10_000);
  t.ok(timers() <= before + 2, 'no timer each');
  const real = await s.submitOne();
  const waiting = s.waiters.wait(real, { timeout_ms: LONG });
  await s.end(real);
  t.match(await waiting, { id: real });
  t.ok(
    s.asked.every((batch) => batch.length <= 500),
    'no query names too many',
  );
  gone.abort();
  t.ok((await Promise.all(all)).every((row) => row === null));
  t.equal(s.waiters.count, 0);
  t.same(s.faults, []);
});

const submitSome = (s: Awaited<ReturnType<typeof scene>>, count: number) =>
  Promise.all(Array.from({ length: count }, () => s.submitOne()));

t.test('a wait for many ends with the last of them, and reads no outputs', async (t) => {
  const s = await scene(t);
  const ids = await submitSome(s, 3);
  await s.end(ids[0]!);
  let ended = false;
  const waiting = s.waiters.waitForAll(ids, { timeout_ms: LONG });
  void waiting.then(() => {
    ended = true;
  });
  await s.end(ids[1]!);
  // It came with the same notification, or a later one.
  t.match(await s.waiters.wait(ids[1]!, { timeout_ms: LONG }), { stdout: Buffer.from('1\n') });
  t.equal(ended, false);
  t.equal(s.waiters.count, 1);
  await s.end(ids[2]!);
  const rows = (await waiting)!;
  t.same(rows.map(({ id }) => id).sort(), [...ids].sort());
  for (const row of rows) {
    t.match(row, { status: 'completed', verdict: 'AC' });
    t.notOk('stdout' in row);
  }
  t.equal(s.waiters.count, 0);
  t.same([...s.whole], [ids[1]], 'asked for with its outputs');
});

t.test(
  'a wait for many whose time is up, or that is given up, leaves nothing behind',
  async (t) => {
    const s = await scene(t);
    const ids = await submitSome(s, 2);
    t.equal(await s.waiters.waitForAll(ids, { timeout_ms: 1 }), null);
    const leaving = new AbortController();
    const waiting = s.waiters.waitForAll(ids, { timeout_ms: LONG, signal: leaving.signal });
    const closing = s.waiters.waitForAll([ids[1]!], { timeout_ms: LONG });
    leaving.abort();
    t.equal(s.waiters.count, 1);
    t.equal(await waiting, null);
    const later = await s.submitOne();
    const after = s.waiters.wait(later, { timeout_ms: LONG });
    // What was asked for before may still be on its way.
    await until(() => s.asked.flat().includes(later));
    s.asked.length = 0;
    await s.end(ids[0]!);
    await s.end(later);
    t.match(await after, { id: later });
    t.notOk(s.asked.flat().includes(ids[0]!), 'nobody asks for what nobody waits for');
    await s.waiters.close();
    t.equal(await closing, null);
    t.equal(s.waiters.count, 0);
  },
);

t.test('the poll makes up for lost hints of a wait for many', async (t) => {
  const s = await scene(t);
  const ids = await submitSome(s, 2);
  const waiting = s.waiters.waitForAll(ids, { timeout_ms: LONG });
  for (const id of ids) await endUnheard(s, id);
  t.match(await waiting, [{ status: 'error' }, { status: 'error' }]);
});

t.test('an end is asked for once, however many requests wait for however much', async (t) => {
  const REQUESTS = 200;
  const s = await scene(t);
  while (s.waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
  const ids = await submitSome(s, 100);
  const { executions } = await s.w.consumer();
  for (const id of ids) await start(executions, id);
  // No poll comes.
  const now = performance.now();
  replaceClock(t, () => now);
  const waits = Array.from({ length: REQUESTS }, () =>
    s.waiters.waitForAll(ids, { timeout_ms: LONG }),
  );
  t.equal(s.waiters.count, REQUESTS);
  await until(async () => s.asked.length >= 2);
  // The first statement began with the first wait. All others began behind it, and share the next one.
  t.same(
    s.asked.map((batch) => batch.length),
    [100, 100],
  );
  for (const id of ids) {
    await s.w.db`select runledger.end_submissions(${`{${id}}`}::text::uuid[], now(),
      array['submission.failed'], array['{"verdict": "IE", "attempt": 1, "evidence": {}}'::jsonb])`;
    await s.w.db`select pg_notify(${CHANNELS.done}, ${id})`;
  }
  for (const rows of await Promise.all(waits)) t.equal(rows!.length, 100);
  t.same(s.asked.slice(2).flat().sort(), [...ids].sort());
  t.equal(s.waiters.count, 0);
});

type Waits = Awaited<ReturnType<typeof scene>>['waiters'];
/** As many as one statement takes. */
const CROWDS: Readonly<Record<string, (waiters: Waits) => void>> = {
  'waits for many that begin': (waiters) =>
    void waiters.waitForAll(Array.from({ length: 500 }, newId), { timeout_ms: LONG }),
  'waits that begin': (waiters) => {
    for (let n = 0; n < 500; n += 1) void waiters.wait(newId(), { timeout_ms: LONG });
  },
};

for (const [crowd, begin] of Object.entries(CROWDS))
  t.test(
    `${crowd} all the time hold up neither the poll nor waits of the other kind`,
    async (t) => {
      const MOST = 400;
      const { w } = await scene(t);
      const jump = jumpingClock(t);
      const polled = newId();
      const [one, many] = [newId(), newId()];
      const wanted = new Set([polled, one, many]);
      let asked = 0;
      const ended = async (ids: readonly string[]) => {
        asked += 1;
        for (const id of ids) wanted.delete(id);
        if (wanted.size > 0 && asked < MOST) begin(waiters);
        await new Promise((wake) => setTimeout(wake, 10));
        return [];
      };
      const waiters = await createWaiters(w.web, { ended }, (error) => t.fail(String(error)));
      t.teardown(() => waiters.close());
      while (waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
      void waiters.wait(polled, { timeout_ms: LONG, unborn: true });
      begin(waiters);
      void waiters.wait(one, { timeout_ms: LONG });
      void waiters.waitForAll([many], { timeout_ms: LONG });
      jump(2_000);
      await until(() => wanted.size === 0);
      t.ok(asked < MOST, `after ${asked} statements`);
    },
  );

t.test('nobody asks for what was given up, nor for outputs that nobody needs', async (t) => {
  const { w } = await scene(t);
  const asked: { ids: readonly string[]; outputs: boolean }[] = [];
  const gate = Promise.withResolvers<void>();
  const ended = async (ids: readonly string[], outputs: boolean) => {
    asked.push({ ids, outputs });
    await gate.promise;
    return [];
  };
  const waiters = await createWaiters(w.web, { ended }, (error) => t.fail(String(error)));
  t.teardown(() => waiters.close());
  const [first, left, both, kept, last] = [newId(), newId(), newId(), newId(), newId()];
  const gone = new AbortController();
  const options = { timeout_ms: LONG, signal: gone.signal };
  // What comes during a question waits for its end.
  void waiters.wait(first, { timeout_ms: LONG });
  void waiters.wait(left, options);
  void waiters.wait(both, options);
  void waiters.waitForAll([both], { timeout_ms: LONG });
  void waiters.wait(kept, { timeout_ms: LONG });
  gone.abort();
  gate.resolve();
  const of = (ids: readonly string[]) =>
    asked.filter((one) => ids.some((id) => one.ids.includes(id)));
  await until(() => of([both]).length > 0 && of([kept]).length > 0);
  void waiters.wait(last, { timeout_ms: LONG });
  await until(() => of([last]).length > 0);
  t.same(of([left]), []);
  t.ok(of([both]).every(({ outputs }) => !outputs));
  t.ok(of([kept]).every(({ outputs }) => outputs));
  t.same(await waiters.waitForAll([], { timeout_ms: LONG }), [], 'there is nothing to wait for');
});

t.test('what is hinted at does not wait for the rest of a poll', async (t) => {
  const { w } = await scene(t);
  const asked: (readonly string[])[] = [];
  let polling!: () => void;
  const first = new Promise<void>((resolve) => {
    polling = resolve;
  });
  let go!: () => void;
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  const ended = async (ids: readonly string[]) => {
    asked.push(ids);
    polling();
    await gate;
    return [];
  };
  const waiters = await createWaiters(w.web, { ended }, (error) => t.fail(String(error)));
  t.teardown(() => waiters.close());
  for (let n = 0; n < 1_001; n += 1) void waiters.wait(newId(), { timeout_ms: LONG, unborn: true });
  await first;
  const hinted = newId();
  void waiters.wait(hinted, { timeout_ms: LONG });
  go();
  while (asked.length < 3) await new Promise(setImmediate);
  t.same(
    asked.map((ids) => ids.length),
    [500, 51, 451],
  );
  t.equal(asked[1]?.[0], hinted, 'and takes a part of the poll with it');
});

t.test('closing answers every waiter', async (t) => {
  const s = await scene(t);
  const waiting = s.waiters.wait(await s.submitOne(), { timeout_ms: LONG });
  await s.waiters.close();
  t.equal(await waiting, null);
  t.equal(await s.waiters.wait(newId(), { timeout_ms: LONG }), null);
});

t.test('a result is its account’s alone; another’s and none are the same', async (t) => {
  const s = await scene(t);
  const id = await s.submitOne();
  const other = await s.w.key();
  const sibling = await s.w.key();
  t.match(await s.results.read(s.digest, id), {
    kind: 'found',
    record: { id, status: 'pending', stdout: null },
  });
  const foreign = await s.results.read(other.digest, id);
  const none = await s.results.read(sibling.digest, newId());
  t.match(foreign, { kind: 'not_found' });
  t.same({ ...foreign, caller: null }, { ...none, caller: null });
  t.same(await s.results.read(new Uint8Array(32), id), { kind: 'unauthorized' });
  t.match(foreign, { caller: { rate: { remaining: 59 } } }, 'reading spends');
});

t.test(
  'a result that comes with its end is not asked for; one that is only named is',
  async (t) => {
    const s = await scene(t);
    while (s.waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
    const reply_to = s.waiters.replyTo()!;
    const reply = (said: object) => s.w.db`select pg_notify(${reply_to}, ${JSON.stringify(said)})`;
    const id = await s.submitOne();
    // If it never came, they end before the test does.
    const both = [1, 2].map(() => s.waiters.wait(id, { timeout_ms: 20_000, unborn: true }));
    const never = { started_at: null, completed_at: null };
    const record = { id, status: 'completed', created_at: '2026-01-01T00:00:00Z', ...never };
    await reply({ record, stdout: Buffer.from('ü').toString('base64'), stderr: null });
    const sent = { id, stdout: Buffer.from('ü'), stderr: new Uint8Array(), completed_at: null };
    t.match(await Promise.all(both), [sent, sent]);
    t.equal(s.waiters.count, 0);
    await reply({ record, stdout: null, stderr: null });

    // A poll asks for both submissions, and what is named for this one alone, unless a poll comes at the same moment.
    void s.waiters.wait(await s.submitOne(), { timeout_ms: 10 * LONG });
    const endedByName = async () => {
      const large = await s.submitOne();
      const waiting = s.waiters.wait(large, { timeout_ms: LONG, unborn: true });
      await s.w.db`select runledger.end_submissions(${`{${large}}`}::text::uuid[], now(),
        array['submission.failed'], array['{"verdict": "IE", "attempt": 1, "evidence": {}}'::jsonb])`;
      const before = s.asked.length;
      await reply({ id: large });
      t.match(await waiting, { id: large, status: 'error', verdict: 'IE' });
      return s.asked.slice(before).some((ids) => ids.length === 1 && ids[0] === large);
    };
    let by_name = false;
    for (let tries = 0; tries < 20 && !by_name; tries++) by_name = await endedByName();
    t.ok(by_name, 'by its name and not by the next poll');
    await s.waiters.close();
    t.equal(s.waiters.replyTo(), null);
  },
);

t.test('no statement shows the name of the channel', async (t) => {
  const s = await scene(t);
  while (s.waiters.replyTo() === null) await new Promise((wake) => setTimeout(wake, 5));
  // A session of the same role, as another process has it.
  const shown = await s.w.web<{ query: string }[]>`
    select query from pg_stat_activity where datname = current_database()`;
  t.ok(shown.some(({ query }) => query.includes('listen')));
  t.notOk(shown.some(({ query }) => query.includes(s.waiters.replyTo()!)));
});
