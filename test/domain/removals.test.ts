import t from 'tap';
import {
  allowsDetached,
  allowsForgotten,
  allowsPurge,
  allowsRepair,
  BadRemovals,
  parseRemovals,
} from '../../src/domain/removals.ts';

const LAST_ID = '01890000-0000-7000-8000-000000000000';
const LEAVES = 'ab'.repeat(32);

t.test('a file of removals', async (t) => {
  const removals = parseRemovals(
    `# kept by the auditor\ndetached events_2026_01 12 ${LEAVES}\n\n detached events_2025_12 3 -\npurged 2026-03-01\npurged older-than 90d\nrepaired example.com/log 88\nforgotten ${LAST_ID}\n`,
  );
  const month = { partition: 'events_2026_01', events: 12, leaves_sha256: LEAVES };
  t.ok(allowsDetached(removals, month));
  t.notOk(allowsDetached(removals, { ...month, events: 13 }));
  t.notOk(allowsDetached(removals, { ...month, leaves_sha256: 'cd'.repeat(32) }));
  t.notOk(allowsDetached(removals, { ...month, leaves_sha256: null }));
  t.notOk(allowsDetached(removals, { ...month, partition: 'events_2026_02' }));
  t.ok(allowsDetached(removals, { partition: 'events_2025_12', events: 3, leaves_sha256: null }));
  const purged_at = new Date('2026-06-01T00:00:00Z');
  const ended_before = (day: string, last_id: string | null = LAST_ID) =>
    allowsPurge(removals, {
      at: purged_at,
      ended_before: new Date(`${day}T00:00:00Z`),
      last_id,
    });
  t.ok(ended_before('2026-02-28'));
  t.ok(ended_before('2026-03-01'), 'up to the time itself');
  t.ok(ended_before('2026-03-03'), '90 days before the purge');
  t.notOk(ended_before('2026-03-04'));
  t.notOk(ended_before('2026-03-03', null), 'without a last id, an age allows nothing');
  t.ok(ended_before('2026-03-01', null));
  const at = purged_at;
  const OTHER = LAST_ID.replace('0', 'a');
  t.ok(allowsForgotten(removals, { at, account_id: null, submissions: [LAST_ID] }));
  t.ok(allowsForgotten(removals, { at, account_id: LAST_ID, submissions: [OTHER] }));
  t.notOk(allowsForgotten(removals, { at, account_id: null, submissions: [LAST_ID, OTHER] }));
  t.notOk(allowsForgotten(removals, { at, account_id: OTHER, submissions: [OTHER] }));
  t.ok(allowsRepair(removals, { origin: 'example.com/log', size: 88 }));
  t.notOk(allowsRepair(removals, { origin: 'example.com/log', size: 89 }));
  t.notOk(allowsRepair(removals, { origin: 'example.com', size: 88 }));
});

t.test('times of a purge', async (t) => {
  for (const [line, time] of [
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
    ['2026-03-01T12:00Z', '2026-03-01T12:00:00.000Z'],
    ['2026-03-01T12:00:07.123999-05:30', '2026-03-01T17:30:07.123Z'],
    ['2026-03-01T00:00:00+23:59', '2026-02-28T00:01:00.000Z'],
  ] as const)
    t.equal(parseRemovals(`purged ${line}`).purged_before[0]!.toISOString(), time, line);
});

t.test('anything else is rejected, with its line', async (t) => {
  for (const line of [
    'detached events_2026_01 12',
    `detached payloads_2026_01 12 ${LEAVES}`,
    'detached events_2026_01 -1 -',
    'purged yesterday',
    'purged older-than 90',
    'purged older-than 9007199254740993d',
    'purged 2026-99-99',
    'purged 2026-02-30',
    'purged 2026-02-30T12:00Z',
    'purged 2026-03-01T24:00:00Z',
    'purged 2026-03-01T23:59:60Z',
    'purged 2026-03-01T12:00:00',
    'purged 2026-03-01t12:00:00z',
    'purged 2026-03-01T12:00:00.Z',
    'purged 2026-03-01T12:00:00+24:00',
    'purged 2026-03-01 12:00:00Z',
    `detached events_2026_13 12 ${LEAVES}`,
    `detached events_1969_12 12 ${LEAVES}`,
    'detached events_2026_01 9007199254740993 -',
    'repaired example.com/log 9007199254740993',
    'repaired a\u0007b 12',
    `forgotten ${LAST_ID.toUpperCase().replace('0', 'A')}`,
    'forgotten everything',
    'repaired example.com/log',
    'repaired example.com/log 0',
    'removed everything',
  ])
    t.throws(
      () => parseRemovals(`# one\n${line}`),
      new BadRemovals(`line 2: not a removal: ${line}`),
    );
});
