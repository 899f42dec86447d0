import t from 'tap';
import { verify } from '../../src/store/verify.ts';
import { idOf, submission, world } from './world.ts';

t.test('verify names each event whose facts are not of their schema', async (t) => {
  const w = await world(t, { strange_events: 'they are what is looked for' });
  const { digest } = await w.key();
  const id = idOf(
    await w.submissions().submit({ secret_digest: digest, submission: submission() }),
  );
  const check = () => verify(w.db, { head: null, signers: [] });
  t.same((await check()).problems, []);
  const consumer = 'd5878fba-2e0c-4f31-a614-7160c2c48760';
  const append = (version: number, type: string, facts: object) =>
    w.db`select runledger.append_events(${id}, ${version}, array[${type}], array[${JSON.stringify(facts)}]::text[]::jsonb[], array[2::smallint])`;
  await append(1, 'execution.refused', { attempt: 1, consumer, verdict: 'ZZ' });
  await append(2, 'execution.refused', { attempt: -1, consumer, verdict: 'AC', more: 1 });
  const { well, problems } = await check();
  t.notOk(well);
  t.match(
    problems[0],
    new RegExp(
      `^the facts of ${id} version 2 \\(execution.refused\\) are not of their schema: verdict: .*ZZ`,
    ),
  );
  t.match(problems[1], new RegExp(`^the facts of ${id} version 3 .*: attempt: .*more: `));
  const alone = w.connect(w.database.url, 1);
  t.same(
    (await verify(alone, { head: null, signers: [] })).problems,
    problems,
    'on one connection, too',
  );
});
