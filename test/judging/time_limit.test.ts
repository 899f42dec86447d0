/** The time limit that follows from example submissions. */
import t from 'tap';
import type { Requirement } from '../../src/judging/packages/expected_results.ts';
import {
  boundsTimeLimit,
  exceedsTimeLimit,
  timeLimitFrom,
} from '../../src/judging/packages/time_limit.ts';

const requirement = (time_limit: Requirement['time_limit'], ...tests: string[]): Requirement => ({
  tests,
  permitted: ['AC'],
  required: ['AC'],
  score: null,
  message: '',
  time_limit,
});
const TIMING = { ac_to_time_limit: 2, time_limit_to_tle: 1.5, resolution: 0.1 };
const times = { a: 0.31, b: 0.7 };
const submission = (...requirements: Requirement[]) => ({
  requirements,
  tests: Object.entries(times).map(([name, cpu_time]) => ({ name, cpu_time })),
});

t.test('the slowest run that has to be in time bounds the limit from below', async (t) => {
  const limit = (...given: Requirement[]) => timeLimitFrom(TIMING, [submission(...given)]);
  t.equal(limit(requirement('lower', 'a', 'b')), 1.4);
  t.equal(limit(requirement('lower', 'a')), 0.7, 'only the tests that it is about count');
  t.equal(limit(requirement('lower', 'a'), requirement(null, 'b')), 0.7);
  t.equal(limit(requirement('upper', 'b')), null, 'one that is to be late does not count');
  t.equal(timeLimitFrom(TIMING, []), null);
  const instant = {
    requirements: [requirement('lower', 'a')],
    tests: [{ name: 'a', cpu_time: 0 }],
  };
  t.equal(timeLimitFrom(TIMING, [instant]), 0.1);
  const not_run = { ...instant, tests: [{ name: 'a', cpu_time: null }] };
  t.equal(timeLimitFrom(TIMING, [not_run]), null);
  const legacy = { ac_to_time_limit: 5, time_limit_to_tle: 2, resolution: 1 };
  t.equal(timeLimitFrom(legacy, [submission(requirement('lower', 'b'))]), 4);
  const two = [submission(requirement('lower', 'a')), submission(requirement('lower', 'b'))];
  t.equal(timeLimitFrom(TIMING, two), 1.4);
  const many = { ...instant, tests: new Array(300_000).fill({ name: 'a', cpu_time: 0 }) };
  t.equal(timeLimitFrom(TIMING, [many]), 0.1);
});

t.test('whether a submission bounds the limit', async (t) => {
  t.ok(boundsTimeLimit(submission(requirement(null, 'a'), requirement('lower', 'a'))));
  t.notOk(boundsTimeLimit(submission(requirement(null, 'a'), requirement('upper', 'a'))));
  t.ok(exceedsTimeLimit(submission(requirement('lower', 'a'), requirement('upper', 'b'))));
  t.notOk(exceedsTimeLimit(submission(requirement(null, 'a'), requirement('lower', 'a'))));
});
