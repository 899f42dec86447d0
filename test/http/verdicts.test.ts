/** Every verdict and every status of the lists can be stored, is answered as it was stored, and is in the document. */
import t from 'tap';
import { problemOf } from '../../src/domain/events.ts';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import { VERDICT_NAMES, VERDICTS } from '../../src/domain/verdicts.ts';
import { readDocument } from './support/document.ts';
import { startService } from './support/service.ts';

t.test('each verdict is answered with its status', async (t) => {
  const service = await startService(t, { webs: 1 });
  const document = await readDocument(service.webs[0]!.origin);
  const key = await service.key();
  const statuses = new Set<string>();
  const read = async (id: string) => {
    const { json } = await service.call({ path: `/api/result/${id}`, key });
    t.ok(document.check('Result', json), JSON.stringify(json));
    statuses.add(json.status);
    return json;
  };
  for (const verdict of VERDICT_NAMES) {
    const { status } = VERDICTS[verdict];
    const { json } = await service.submit(key);
    await read(json.id);
    await service.worker.start(json.id);
    await read(json.id);
    await service.worker.finish(json.id, { verdict, status });
    t.match(await read(json.id), { verdict, status }, verdict);
  }
  const { json } = await service.submit(key);
  await service.call({ method: 'DELETE', path: `/api/submissions/${json.id}`, key });
  t.match(await read(json.id), { verdict: null, status: 'cancelled' });
  t.strictSame([...statuses].sort(), [...STATUS_NAMES].sort(), 'and every status was seen');

  const events = await service.db<{ type: string; schema: number; facts: unknown }[]>`
    select type, schema, facts from runledger.events where type in ('submission.completed', 'submission.failed')`;
  t.equal(events.length, VERDICT_NAMES.length);
  for (const event of events) t.equal(problemOf(event), null, event.type);
});
