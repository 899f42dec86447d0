/** Nothing that the configuration accepts is more than the launcher takes. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import {
  FRAME_MAX,
  KEEP_BYTES_MAX,
  LAUNCHER_SLOTS,
  MOST_SLOTS,
} from '../../src/domain/launcher_bounds.ts';
import { MOST_RESIDENTS } from '../../src/languages/java/java.ts';
import { slotsOf } from '../../src/processes/slots_of.ts';
import { LAUNCHER } from './box.ts';

function inHeader(header: string, name: string): number {
  const text = readFileSync(`src/sandbox/${header}`, 'utf8');
  const product = new RegExp(`\\b${name} = ([\\d* ]+)`).exec(text)?.[1] ?? '';
  return product.split('*').reduce((found, factor) => found * Number(factor), 1);
}

t.test('the bounds of the launcher are known to the worker', async (t) => {
  t.equal(LAUNCHER_SLOTS, inHeader('options.h', 'MAX_SLOTS'));
  t.equal(MOST_SLOTS + MOST_RESIDENTS, LAUNCHER_SLOTS);
  t.equal(FRAME_MAX, inHeader('wire.h', 'FRAME_MAX'));
  t.equal(KEEP_BYTES_MAX, inHeader('wire.h', 'KEEP_BYTES_MAX'));
});

t.test('a worker starts on a machine with more cores than the launcher has slots', async (t) => {
  const lines: unknown[] = [];
  const log = { info: (fields: unknown) => lines.push(fields) };
  const slots = slotsOf(loadConfig({}), log, 128);
  const probe = ['--slots', `${slots}`, '--stream-slots', `${MOST_RESIDENTS}`, '--print-filter'];
  t.equal(spawnSync(LAUNCHER, probe).status, 0, 'the launcher takes so many');
  t.strictSame(lines, [{ cores: 128, slots: MOST_SLOTS }], 'and the log says it');
  t.equal(slotsOf(loadConfig({}), log, 8), 8, 'with fewer cores it has a slot for each');
  t.equal(slotsOf(loadConfig({ RUNLEDGER_SLOTS: '12' }), log, 128), 12);
  t.equal(lines.length, 1);
});

t.test('more slots than the launcher has are a mistake of the configuration', async (t) => {
  const most = { RUNLEDGER_SLOTS: `${MOST_SLOTS}` };
  t.equal(loadConfig(most).slots, MOST_SLOTS);
  t.throws(() => loadConfig({ RUNLEDGER_SLOTS: `${MOST_SLOTS + 1}` }), /RUNLEDGER_SLOTS: must be/);
});
