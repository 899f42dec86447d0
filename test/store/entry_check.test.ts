/** Times of events, in the order of the feed: what an honest service can leave, and what somebody dated back. */
import t from 'tap';
import { entryOf } from '../../src/proof/entry.ts';
import { EntryCheck } from '../../src/store/entry_check.ts';
import { Problems } from '../../src/store/problems.ts';

const NOW_US = BigInt(Date.now() - 946_684_800_000) * 1000n;
const MINUTE_US = 60_000_000n;
const TIER = '{"name": "free", "per_minute": 1, "concurrent": 1}';
const PURGE =
  '{"ended_before": "2026-01-01T00:00:00+00:00", "submissions": 1, "payloads": 1, "size_bytes": 1}';

type Given = { minutes: number; type?: string; facts?: string };

/** Events so many minutes from now, one after the other in the feed. */
const problemsOf = (...events: readonly Given[]): string[] => checked(events).problems.lines();

/** An event of this time, in microseconds since 2000, after one of another time. */
function problemsAt(...times_us: readonly bigint[]): string[] {
  const problems = new Problems();
  const check = new EntryCheck(problems, { from: 'file' });
  times_us.forEach((at_us, n) => {
    const event = { stream: 'f0000000-0000-4000-8000-000000000000', version: n + 1, schema: 1 };
    const place = { generation: 1, xid: BigInt(n), seq: 1n };
    check.check(entryOf({ ...event, type: 'tier.set', at_us, ...place, facts: TIER }));
  });
  return problems.lines();
}

function checked(events: readonly Given[], most_claims_bytes?: number) {
  const problems = new Problems();
  const check = new EntryCheck(problems, {
    from: 'database',
    ...(most_claims_bytes !== undefined && { most_claims_bytes }),
  });
  events.forEach(({ minutes, type = 'tier.set', facts = TIER }, n) => {
    const stream = `f0000000-0000-4000-8000-00000000000${n}`;
    const at_us = NOW_US + BigInt(minutes) * MINUTE_US;
    const place = { generation: 1, xid: BigInt(n + 10), seq: BigInt(n) };
    check.check(entryOf({ stream, version: 1, type, schema: 1, at_us, ...place, facts }));
  });
  return { problems, check };
}

t.test('it says whether the feed leads back, from where reading on would never end', async (t) => {
  const check = new EntryCheck(new Problems(), { from: 'database' });
  const goesBack = (xid: number) => {
    const event = { stream: 'f0000000-0000-4000-8000-000000000000', version: 1, schema: 1 };
    const place = { generation: 1, xid: BigInt(xid), seq: 1n };
    check.check(entryOf({ ...event, type: 'tier.set', at_us: NOW_US, ...place, facts: TIER }));
    return check.goes_back;
  };
  t.same([5, 9, 7, 8, 6, 9, 10, 11].map(goesBack), [
    ...[false, false, true, true, true, true, false, false],
  ]);
});

const at = (...minutes: number[]) => problemsOf(...minutes.map((each) => ({ minutes: each })));

t.test('an event may be dated before an earlier one, but not by more than an hour', async (t) => {
  t.same(at(-300, -200, -100, 0), []);
  t.same(at(-100, -159, -158, 0), [], 'a long transaction, or a clock that was set right');
  t.match(at(-100, -161, 0), [
    /^f0000000-0000-4000-8000-000000000001 version 1 is of a time that is long before those of earlier events: /,
  ]);
  t.equal(at(-100, -161, -161, -50, -120).length, 3, 'each, against the latest before it');
});

t.test('the first event is of 1970 at the earliest, and no time is infinite', async (t) => {
  const FIRST_US = -946_684_800_000_000n;
  t.same(problemsAt(FIRST_US), []);
  t.match(problemsAt(FIRST_US - 1n), [/ that is before 1970, or none: 1969-12-31T23:59:59.999Z$/]);
  t.match(problemsAt(-(2n ** 63n)), [/ that is before 1970, or none: no time$/]);
  t.match(problemsAt(2n ** 63n - 1n), [/ that is still to come, or none: no time$/]);
});

t.test('times are cut to milliseconds before they are compared', async (t) => {
  const hour_us = 60n * MINUTE_US;
  t.same(problemsAt(hour_us + 999n, 0n), []);
  t.equal(problemsAt(hour_us + 1000n, 999n).length, 1);
});

t.test('facts that are not UTF-8 are no JSON', async (t) => {
  const problems = new Problems();
  const check = new EntryCheck(problems, { from: 'file' });
  const event = { stream: 'f0000000-0000-4000-8000-000000000000', version: 1, schema: 1 };
  const given = { ...event, type: 'tier.set', at_us: NOW_US, generation: 1, xid: 1n, seq: 1n };
  const entry = entryOf({ ...given, facts: TIER.replace('free', '\ufffd') });
  check.check(entry);
  t.same(problems.lines(), [], 'the character itself is text');
  entry[entry.indexOf('\ufffd')] = 0xff;
  check.check(entry);
  t.match(problems.lines(), [/has the place/, /are not of their schema/]);
});

t.test('a time that is still to come is reported alone', async (t) => {
  const problems = at(-1, 6000, 0);
  t.equal(problems.length, 1);
  t.match(problems[0], /^\S+1 version 1 is of a time that is still to come/);
});

t.test('a purge began to write long before its time', async (t) => {
  const purge = { minutes: -10, type: 'payloads.purged', facts: PURGE };
  t.same(problemsOf({ minutes: -900 }, purge, { minutes: -890 }, { minutes: 0 }), []);
  t.equal(problemsOf({ minutes: -3000 }, purge, { minutes: -2000 }).length, 1, 'but not a day');
  t.equal(problemsOf({ minutes: 0 }, { ...purge, minutes: -100 }).length, 1, 'or its own time');
});

t.test('what the log says about itself is short: all of it is kept until the end', async (t) => {
  const repaired = (length: number) => ({
    minutes: 0,
    type: 'log.repaired',
    facts: `{"origin": "o", "size": 1, "root": "${'0'.repeat(64)}", "reason": "${'x'.repeat(length)}", "operator": "o"}`,
  });
  t.match(problemsOf(repaired(70_000)), [
    / version 1 are longer than any that the service appends/,
  ]);
  const facts = `{"name": "${'x'.repeat(70_000)}", "per_minute": 1, "concurrent": 1}`;
  for (const each of [repaired(200), { minutes: 0, facts }])
    t.notMatch(problemsOf(each).join(), /are longer/);
});

t.test('a type with spaces is not taken for one whose facts were checked', async (t) => {
  const type = 'account.created 1 {"name": "q';
  const honest = { minutes: 0, type: 'account.created', facts: '{"name": "q 1 {}"}' };
  const forged = { minutes: 0, type, facts: '{}"}' };
  t.same(problemsOf(honest, honest), []);
  for (const before of [[], [honest]])
    t.match(problemsOf(...before, forged), [/ are not of their schema: no such event/]);
});

t.test('what is kept of a log, and of a problem, is bounded', async (t) => {
  const purge = (operator: string) => ({
    ...{ minutes: 0, type: 'payloads.purged' },
    facts: PURGE.replace('}', `, "operator": "${operator}"}`),
  });
  const all = checked(Array(10).fill(purge('x'.repeat(60_000))), 6_000);
  t.same(all.problems.lines(), [], 'facts that nothing is compared with are not kept');
  t.equal(all.check.claims.length, 10);
  const some = checked(Array(10).fill(purge('x')), 3_000);
  t.match(some.problems.lines()[0], / \(payloads.purged\) is beyond what verify keeps/);
  t.equal(some.check.claims.length + some.problems.lines().length, 10);
  const strange = checked([{ minutes: 0, type: 'x'.repeat(100_000) }]);
  t.equal(strange.check.types.size, 0);
  const [line] = strange.problems.lines();
  t.match(line, /x… \(\d+ characters\)$/);
  t.ok(line!.length < 2_100);
});

t.test('what an account deleted itself is not kept: it can do so for ever', async (t) => {
  const deleted = (facts: object) => ({
    ...{ minutes: 0, type: 'test_set.deleted' },
    facts: JSON.stringify(facts),
  });
  const by_key = { key_id: 'f0000000-0000-4000-8000-00000000000a', request_id: 'r' };
  const unused_since = '2026-01-01T00:00:00+00:00';
  const own = checked(Array(10).fill(deleted(by_key)), 1_000);
  t.same(own.problems.lines(), []);
  t.same(own.check.claims, []);
  const others = [{}, { unused_since }, { ...by_key, unused_since }].map(deleted);
  t.equal(checked(others).check.claims.length, 3, 'what else is claimed is');
});
