/** What of an error is logged. */
import t from 'tap';
import { errorFacts } from '../src/log.ts';

const coded = (code: string) => Object.assign(new Error('why'), { code });

t.test('an outage is logged without a stack', async (t) => {
  for (const code of ['ECONNREFUSED', 'ENOSPC', 'CONNECTION_CLOSED', '57P03', '53300', '08006'])
    t.match(errorFacts(coded(code)), { message: 'why', code, stack: undefined }, code);
});

t.test('what may be a mistake of this program has its stack', async (t) => {
  for (const error of [new TypeError('why'), coded('ERR_INVALID_ARG_TYPE'), coded('42883')])
    t.match(errorFacts(error), { message: 'why', stack: /log\.test/ });
});
