import t from 'tap';
import { createInFlight } from '../../src/queue/in_flight_jobs.ts';

t.test(
  'a job that is in flight cannot be added again, nor any job that came with it',
  async (t) => {
    const jobs = createInFlight();
    jobs.add(['1', '2']);
    t.throws(() => jobs.add(['3', '2']), { message: 'job 2 is in flight already' });
    t.same(jobs.known(), ['1', '2']);
    jobs.remove('2');
    jobs.add(['3', '2']);
    t.same(jobs.known(), ['1', '3', '2']);
  },
);

t.test('a job that is being unlocked is in flight and not known', async (t) => {
  const jobs = createInFlight();
  jobs.add(['1', '2']);
  jobs.returning('1');
  t.same(jobs.known(), ['2']);
  t.equal(jobs.size, 2);
  t.throws(() => jobs.add(['1']), { message: 'job 1 is in flight already' });
  jobs.remove('1');
  jobs.returning('1');
  t.equal(jobs.size, 1, 'a job that is gone does not come back');
});

t.test('empty() settles when the last job is removed', async (t) => {
  const jobs = createInFlight();
  await jobs.empty();
  jobs.add(['1', '2']);
  let settled = false;
  const empty = jobs.empty().then(() => {
    settled = true;
  });
  jobs.remove('1');
  await new Promise((turn) => setImmediate(turn));
  t.equal(settled, false);
  jobs.remove('2');
  await empty;
});
