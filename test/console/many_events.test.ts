/** So many events are not sealed that they are not all counted: wherever people read how many, it says so. */
import t from 'tap';
import { runProgram } from '../cli/command_line.ts';
import { startService } from '../http/support/service.ts';
import { eventually } from '../support/eventually.ts';
import { signIn } from './visitor.ts';

const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');

t.test('of events that are not all counted, it is said that there may be more', async (t) => {
  const service = await startService(t, { webs: 1 });
  const visitor = await signIn(service, 'grace');
  const append = (events: number) => service.db`
    select runledger.append_events(runledger.permanent_id(), 0, array_fill('test_set.created'::text, array[${events}::integer]),
      array_fill(jsonb_build_object('account_id', gen_random_uuid(), 'key_id', gen_random_uuid(), 'tests', 1, 'groups', 0,
        'files', '{"count": 1, "size_bytes": 1}'::jsonb,
        'bytes', jsonb_build_object('manifest', jsonb_build_object('size', 1, 'sha256', repeat('0', 64)))), array[${events}::integer]))`;
  const shown = async () => {
    const { text } = await visitor.get('/log');
    return /no checkpoint covers<\/dt>\s*<dd>([^<]*)</.exec(text)?.[1];
  };
  await append(1000);
  t.match(await shown(), /^1,\d{3}$/);
  const before = (await visitor.get('/live')).json.queue;
  t.equal(before.unsealed_more, false);
  for (let n = 0; n < 20; n++) await append(5000);
  t.equal(await shown(), '100,000 or more');
  await eventually(async () => (await visitor.get('/live')).json.queue.unsealed_more === true);
  const env = { DATABASE_URL: service.database.urls.owner, RUNLEDGER_SEAL_KEY: SEAL_KEY };
  const args = ['doctor', '--json', '--only', 'service'];
  const { stdout } = await runProgram('./runledger', args, { cwd: process.cwd(), env });
  t.match(stdout, /100,000 or more events are not sealed/);
});
