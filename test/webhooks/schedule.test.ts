/**
 * The default of RUNLEDGER_WEBHOOK_SCHEDULE is the only definition of the schedule. This file holds
 * what the service promises: a change of the default, or a document that differs from it, fails.
 */
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { durationMs } from '../../src/config/parsers.ts';
import { loadConfig } from '../../src/config.ts';
import { OUTCOMES } from '../../src/domain/delivery_outcomes.ts';
import { OVERDUE_MS } from '../../src/queue/deliver_webhook.ts';
import { JITTER, RETRY_AFTER_LIMIT_MS } from '../../src/webhooks/backoff.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const schedule = loadConfig({}).webhook_schedule_ms;
const page = readFileSync('WEBHOOKS.md', 'utf8');
const cellsOf = (row: string) =>
  row
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());
const inMs = (words: string[]) => words.map((word) => durationMs(word.replace(' ', '')));

t.test('the default schedule is the one that the service promises', async (t) => {
  const hours = [2, 5, 10, 14, 20, 24].map((count) => count * HOUR);
  t.same(schedule, [5 * SECOND, 5 * MINUTE, 30 * MINUTE, ...hours]);
});

t.test('WEBHOOKS.md has a table with every wait of the schedule', async (t) => {
  const waits = /^\| *wait *\|.*$/m.exec(page)?.[0] ?? '';
  t.same(inMs(cellsOf(waits)), schedule);
  const attempts = /^\| *attempt *\|.*$/m.exec(page)?.[0] ?? '';
  t.same(
    cellsOf(attempts),
    schedule.map((_, at) => `${at + 2}`),
  );
});

t.test('every list of waits in a document is the schedule', async (t) => {
  const others = (text: string) =>
    [...text.matchAll(/\d+ ?(?:s|min|h)(?:, ?\d+ ?(?:s|min|h)){3,}/g)]
      .map(([list]) => list)
      .filter((list) => inMs(list.split(/, ?/)).join() !== schedule.join());
  const names = readdirSync('.').filter((name) => name.endsWith('.md'));
  t.same(
    names.flatMap((name) => others(readFileSync(name, 'utf8'))),
    [],
  );
  t.same(others('5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h'), []);
  t.same(others('after 5s,5min,30min,3h'), ['5s,5min,30min,3h']);
});

t.test('21 days are enough to remove a key, as WEBHOOKS.md promises', async (t) => {
  const { pending_max_age_ms, webhook_timeout_ms } = loadConfig({});
  const waits_ms = schedule.length * RETRY_AFTER_LIMIT_MS * (1 + JITTER);
  const attempt_ms = webhook_timeout_ms + OVERDUE_MS;
  const longest_ms = pending_max_age_ms + waits_ms + (schedule.length + 1) * attempt_ms;
  t.ok(longest_ms < 21 * DAY, `${longest_ms / DAY} days`);
  t.match(page, /after 21 days/);
  t.equal(Math.max(...schedule), RETRY_AFTER_LIMIT_MS, 'Retry-After is honoured up to a day');
});

t.test('WEBHOOKS.md explains every outcome of an attempt, and no other', async (t) => {
  const table = /\| outcome \|.*\n\|[-|]+\n((?:\|.*\n)+)/.exec(page)?.[1] ?? '';
  const explained = [...table.matchAll(/^\|([^|]+)\|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`(\w+)`/g)].map(([, word]) => word!),
  );
  t.same(explained.toSorted(), [...OUTCOMES].toSorted());
});
