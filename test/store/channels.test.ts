/** The SQL that notifies and the list of channels agree. */
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { CHANNELS } from '../../src/store/channels.ts';

t.test('SQL notifies on the channels of the list, and on no others of this service', async (t) => {
  const sql = readdirSync('sql/functions').map((name) =>
    readFileSync(`sql/functions/${name}`, 'utf8'),
  );
  const named = sql.flatMap((text) => [...text.matchAll(/pg_notify\('(runledger_\w+)'/g)]);
  t.strictSame([...new Set(named.map((match) => match[1]))].sort(), Object.values(CHANNELS).sort());
});
