/** The event of the golden vectors, for the SQL and the TypeScript that hash events. */
import type { LogEvent } from '../../src/domain/seal_chain.ts';

export const EVENT: LogEvent = {
  stream: '017f22e2-79b0-7cc3-98c4-dc0c0c07398f',
  version: 1,
  type: 'submission.accepted',
  schema: 1,
  at_us: 848_232_000_123_456n,
  generation: 1,
  xid: 4_294_967_296n,
  seq: 7n,
  facts: '{"a": 1, "bb": "é\\n"}',
};
