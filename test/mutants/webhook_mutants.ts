/** Mutants of deliveries: the schedule, signatures, addresses, and the rows of deliveries. */
import { inFile, type Mutant } from './mutant.ts';

export const webhookMutants: readonly Mutant[] = [
  ...inFile('src/config/variables.ts', 'test/webhooks/schedule.test.ts', [
    'the schedule has the nine waits of the contract',
    '5s,5min,30min,2h,5h,10h,14h,20h,24h',
    '5s,5min,30min,2h,5h,10h,14h,20h',
  ]),
  ...inFile(
    'src/webhooks/backoff.ts',
    'test/webhooks/backoff.test.ts',
    ['jitter never shortens a wait', '(1 + JITTER * last.random)', '(1 - JITTER * last.random)'],
    [
      'Retry-After never shortens a wait',
      'Math.max(scheduled_ms, asked_ms)',
      '(asked_ms || scheduled_ms)',
    ],
    [
      'an attempt that a stop cuts off does not count',
      '{ retry_in_ms: 0, counts: false }',
      '{ retry_in_ms: 0, counts: true }',
    ],
    ['410 ends a delivery', "if (last.outcome === 'gone') return { end: 'gone' };", ''],
  ),
  ...inFile('src/webhooks/sign.ts', 'test/webhooks/sign.test.ts', [
    'a secret signs as it was written, too',
    '[written, decoded]',
    '[decoded]',
  ]),
  ...inFile(
    'src/webhooks/guard.ts',
    'test/webhooks/guard.test.ts',
    [
      'every address of an answer is checked',
      'of answer.addresses)',
      'of answer.addresses.slice(0, 1))',
    ],
    [
      'the development setting allows loopback alone',
      'options.allow_loopback && isLoopback(address)',
      'options.allow_loopback',
    ],
  ),
  ...inFile(
    'src/webhooks/host_gate.ts',
    'test/webhooks/host_gate.test.ts',
    [
      'accounts take turns',
      '  host.accounts.delete(account_id);\n  host.accounts.set',
      '  host.accounts.set',
    ],
    ['places are spare for accounts without attempts', ' + spare_per_host)', ')'],
    ['and for no others', 'account.inside === 0 && host.inside <', 'host.inside <'],
    [
      'an account has a share of the process',
      'share.held < at_once - held',
      'share.held < at_once',
    ],
    [
      'one that gives up frees its part',
      '          release(account_id, share);\n          throw',
      '          throw',
    ],
    ['a place that becomes free is given away', 'letInNext(host);\n', '\n'],
    [
      'where nothing was sent nothing is learnt',
      'if (took_ms !== undefined)',
      'if (took_ms !== 0)',
    ],
    ['an account without attempts is forgotten', 'host.accounts.delete(account_id);\n    if', 'if'],
  ),
  ...inFile('sql/functions/deliver.sql', 'test/queue/deliver_webhook.test.ts', [
    'turns are those of accounts',
    "convert_from(p.bytes, 'UTF8'), s.account_id",
    "convert_from(p.bytes, 'UTF8'), null::uuid",
  ]),
  ...inFile(
    'sql/functions/deliver.sql',
    'test/queue/deliver_webhook.test.ts',
    [
      'a delivery is not due before its time',
      'case when d.next_at <= clock() then true else',
      'case when true then true else',
    ],
    [
      'a clock that is set back delays no delivery',
      'order by e.version desc limit 1) > clock() end',
      "order by e.version desc limit 1) > clock() + interval '1 day' end",
    ],
    [
      'a replay during an attempt counts',
      "if ended is distinct from 'delivered' and (before[1]).version >",
      'if false and (before[1]).version >',
    ],
    [
      'one attempt is recorded once',
      "d.status = 'waiting' and (d.attempts = after_attempts",
      "d.status = 'waiting' and (true",
    ],
    [
      'a success beside a failure is the next attempt',
      "or ended = 'delivered' and not exists (",
      'or false and not exists (',
    ],
    [
      'a success that is stored twice is one',
      "and e.facts ->> 'consumer' = facts ->> 'consumer'",
      'and false',
    ],
    [
      'a secret is deleted when its delivery has ended',
      'delete from webhook_secrets w where w.submission_id = append_delivery_attempt.id;',
      'null;',
    ],
  ),
  ...inFile(
    'src/queue/deliver_webhook.ts',
    'test/queue/deliver_webhook.test.ts',
    [
      'an end that was not stored is not counted',
      'if (has_ended) observe.ended(status);',
      "if ('end' in next) observe.ended(next.end);",
    ],
    [
      'a job that comes too early is put back',
      'if (!due.is_due) return deliveries.putBackEarly(id);',
      'if (!due.is_due) return;',
    ],
    ['a receiver is judged by its own time', 'entry.leave(attempt_ms);', 'entry.leave(0);'],
    [
      'so is one that is too early when it has its turn',
      'if (delivery === null) return options.deliveries.putBackEarly(id);',
      'if (delivery === null) return;',
    ],
    [
      'what waits for a day beside attempts that hang has failed',
      'return hangs && due.waited_ms >= OVERDUE_MS;',
      'return false;',
    ],
    ['and not before', 'hangs && due.waited_ms >= OVERDUE_MS', 'hangs'],
    [
      'nor beside attempts that end',
      'hangs && due.waited_ms >= OVERDUE_MS',
      'due.waited_ms >= OVERDUE_MS',
    ],
  ),
  ...inFile(
    'sql/functions/next_delivery.sql',
    ['test/cli/deliveries.test.ts', 'test/queue/deliver_webhook.test.ts'],
    [
      'a replay begins the schedule again',
      'd.failures := 0;',
      'd.failures := coalesce(d.failures, 0);',
    ],
    [
      'an attempt that does not count is no failure',
      "coalesce((facts ->> 'counts')::boolean, false)::integer",
      '1',
    ],
  ),
];
