/** What a process says while it waits: its present reason, and not too often. */
import t from 'tap';
import { createReasons } from '../../src/processes/reasons.ts';

t.test('a reason is said when it is another one, and again after some minutes', (t) => {
  let now_ms = 0;
  const said: string[] = [];
  const reason = createReasons(
    ({ message }) => said.push(message),
    () => now_ms,
  );
  const during = (ms: number, ...messages: string[]) => {
    said.length = 0;
    for (const end = now_ms + ms; now_ms < end; now_ms += 1_000)
      for (const message of messages) reason(new Error(message));
    return said;
  };
  t.same(during(60_000, 'refused'), ['refused']);
  t.same(during(60_000, 'not found'), ['not found']);
  t.same(during(180_000, 'not found'), ['not found'], 'repeated once');
  t.same(during(60_000, 'refused', 'not found'), ['refused'], 'two that take turns');
  t.end();
});
