/** Each 500 and each 503 has its cause in the log, once a second at most. */
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { createFailures, missingPart } from '../../src/http/api/failures.ts';
import type { Exchange } from '../../src/http/wire/exchange.ts';
import { problem } from '../../src/http/wire/problem.ts';
import { WrongClock } from '../../src/store/submissions.ts';
import { eventually } from '../support/eventually.ts';

type Line = {
  level: number;
  cause: string;
  requests: number;
  request_id: string;
  request_ids?: string[];
  msg: string;
};

function logged() {
  const lines: Line[] = [];
  const to = new Writable({
    write(chunk, _, done) {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  return { lines, failures: createFailures(pino(to)) };
}

const exchange = (id: string) => ({ id, cause: null }) as unknown as Exchange;
const failed = (code: string, message = '') => Object.assign(new Error(message), { code });

t.test('a cause is logged at once, and then once with the number of requests', async (t) => {
  const { lines, failures } = logged();
  for (let n = 0; n < 1000; n += 1) {
    const one = exchange(`request ${n}`);
    t.equal(failures.answerTo(one, failed('53300', `too many clients ${n}`)).status, 503);
    t.equal(one.cause, '53300', 'and the line of each request names it');
  }
  const why = { cause: '53300', msg: 'unavailable: The database has no connection left.' };
  t.match(lines, [{ ...why, requests: 1, request_id: 'request 0', reason: 'too many clients 0' }]);
  t.ok(await eventually(() => lines.length === 2));
  const newest = { request_id: 'request 999', reason: 'too many clients 999' };
  t.match(lines[1], { ...why, requests: 999, ...newest });
  t.equal(lines[1]!.request_ids?.length, 20, 'the ids in it are bounded');
  t.equal(lines[1]!.request_ids?.[0], 'request 980');
});

t.test('of a fault that some requests find, the log has the id of each', async (t) => {
  const { lines, failures } = logged();
  const fault = new TypeError('x is undefined');
  for (const id of ['a', 'b', 'c']) t.equal(failures.answerTo(exchange(id), fault).status, 500);
  failures.note(exchange('d'), problem('queue_full'));
  failures.note(exchange('e'), problem('queue_full'));
  t.ok(await eventually(() => lines.length === 4));
  const error = { level: 50, cause: /^TypeError at /, failure: { stack: /failures\.test/ } };
  t.match(lines[0], { ...error, requests: 1, request_id: 'a' });
  t.match(lines[2], { ...error, requests: 2, request_id: 'c', request_ids: ['b', 'c'] });
  t.match(lines[3], { cause: 'queue_full', requests: 1, request_id: 'e' });
});

t.test(
  'each cause has its own line; a fault of the program is an error with a stack',
  async (t) => {
    const { lines, failures } = logged();
    t.equal(failures.answerTo(exchange('a'), failed('53100')).status, 503);
    t.equal(failures.answerTo(exchange('b'), new TypeError('x is undefined')).status, 500);
    failures.note(exchange('c'), problem('queue_full'));
    failures.note(exchange('d'), problem('not_found'));
    t.match(lines, [
      { request_id: 'a', msg: 'unavailable: The disk of the database is full.' },
      { request_id: 'b', cause: /^TypeError at /, failure: { stack: /failures\.test/ } },
      { request_id: 'c', cause: 'queue_full' },
    ]);
    t.equal(lines.length, 3);
  },
);

t.test(
  'a thousand causes at once are a hundred lines and one, then one with the rest',
  async (t) => {
    const { lines, failures } = logged();
    for (let n = 0; n < 1000; n += 1) failures.answerTo(exchange('x'), failed(`E${n}`));
    t.equal(lines.length, 101);
    t.ok(await eventually(() => lines.length > 101));
    t.match(lines.slice(101), [{ requests: 899 }]);
  },
);

t.test('what is missing has a name where it is known', async (t) => {
  t.equal(missingPart(failed('ECONNREFUSED')), 'The database is away.');
  t.equal(missingPart(failed('25006')), 'The database is read-only.');
  t.equal(missingPart(new WrongClock()), 'The clocks of this service are too far apart.');
  t.equal(missingPart(failed('57014')), 'The database does not answer.');
  t.equal(missingPart(failed('55P03')), 'The database does not answer.');
  t.equal(missingPart(failed('53200')), 'The database lacks a resource.');
  t.equal(missingPart(failed('23505')), null);
  t.equal(missingPart(new Error()), null);
});
