/** Which indexes the questions of AUDIT.md use, in a ledger with two thousand submissions. */
import t from 'tap';
import { connect } from '../../src/db.ts';
import { freshDatabase } from '../support/database.ts';
import { fillLedger } from './large_ledger.ts';
import { type Plan, planOf, variablesOf } from './plans.ts';
import { filledIn, questions } from './questions.ts';

const SUBMISSIONS = 2_000;
/** Tables that grow with every submission. The permanent streams and the tables of keys and tiers stay small. */
const LARGE = /^(events|submissions|payloads|deliveries)_2026_06/;
/** An index of replays alone, which are few: question 20 reads all of it. */
const REPLAYS = /^20\./;

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

t.test('no question reads a large table from end to end', async (t) => {
  const database = await freshDatabase(t);
  const db = connect(database.url, { name: 'test', max: 1 });
  const auditor = connect(database.urls.auditor, { name: 'test', max: 1 });
  t.teardown(() => Promise.all([db, auditor].map((each) => each.end())));
  await fillLedger(db, SUBMISSIONS);
  // Reading all of a small table is cheapest. With these, it means that no index can be used.
  for (const way of ['seqscan', 'hashjoin', 'mergejoin']) {
    await auditor.unsafe(`set enable_${way} = off`);
  }
  const superuser = connect(database.superuser_url, { name: 'test', max: 1 });
  const variables = await variablesOf(superuser);
  await superuser.end();
  const used = new Set<string>();
  const conditions = new Set<string>();
  for (const { title, queries } of questions)
    for (const query of queries) {
      const text = filledIn(query, variables);
      const nodes = nodesOf(await planOf(auditor, text));
      const whole = nodes.filter((node) => {
        const name = node['Index Name'] ?? node['Relation Name'] ?? '';
        if (!LARGE.test(name) || node['Node Type'] === 'Bitmap Heap Scan') return false;
        return node['Index Cond'] === undefined && !(REPLAYS.test(title) && node['Index Name']);
      });
      t.same(
        whole.map((node) => node['Index Name'] ?? node['Relation Name']),
        [],
        title,
      );
      for (const node of nodes) {
        if (node['Index Name']) used.add(node['Index Name']);
        if (node['Index Cond']) conditions.add(node['Index Cond']);
      }
      const rows = await auditor.unsafe(text);
      t.ok(rows.length > 0 || title.startsWith('10'), `${title}: ${rows.length} rows`);
    }
  const of = (name: string) => [...used].some((index) => index.startsWith(name));
  for (const name of ['events_2026_06_at_expr_encode_idx', 'events_2026_06_at_idx'])
    t.ok(of(name), `${name} is used: ${[...used].join(', ')}`);
  // Another index may be cheaper in so small a ledger, and is none that finds a request.
  for (const fact of ['request_id', 'idempotency_key'])
    t.ok(
      [...conditions].some((condition) => condition.includes(`'${fact}'`)),
      `${fact} is looked up`,
    );
  for (const name of ['payloads_2026_06_lower', 'submissions_2026_06_account_id_created_at'])
    t.ok(of(name), `${name} is used`);
});
