/** A large set: the memory that it takes of a web process, and what workers fetch of it. */
// needs: cpp
import t from 'tap';
import { judgeLargeSet } from './support/large_set.ts';

const MiB = 2 ** 20;
const LARGE = { tests: 500, file_bytes: 200 * 1024 };

t.test('a set of 200 MiB is judged on two workers, which fetch each file once', async (t) => {
  const report = await judgeLargeSet(t, LARGE);
  if (typeof report === 'string') {
    t.pass('two workers', { skip: report });
    return;
  }
  const { set_bytes, upload_grew_bytes, grew_bytes, first, second } = report;
  t.comment(JSON.stringify(report));
  t.ok(set_bytes > 195 * MiB);
  // Usually 70 MiB: what the collector has not freed yet, which is more on a busy machine.
  t.ok(upload_grew_bytes < set_bytes, `${Math.round(upload_grew_bytes / MiB)} MiB more`);
  t.ok(grew_bytes < set_bytes, 'also while records of 4 MiB are read');
  const files = 2 * LARGE.tests;
  for (const { verdicts, accepted } of [first, second]) {
    t.same(new Set(verdicts), new Set(['AC']));
    t.equal(accepted, verdicts.length * LARGE.tests, 'every test was run');
  }
  t.same(
    first.fetched.map(({ contents }) => contents),
    [files, files],
    'each worker fetched each file',
  );
  t.same(
    first.fetched.map(({ calls }) => calls),
    [files, files],
    'and each once',
  );
  t.same(second.fetched, first.fetched, 'for later submissions they fetch nothing');
});
