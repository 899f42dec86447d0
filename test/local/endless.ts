/**
 * Not a test of its own: a test file that never ends, for a runner that gets killed. It uses the server of the run and
 * one of its own, and writes where they are to the file that RUNLEDGER_TEST_ENDLESS names.
 */
import { renameSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { freshDatabase, ownServer } from '../support/database.ts';

t.test('it runs until it is killed', async (t) => {
  const [shared, own] = await Promise.all([freshDatabase(t), ownServer(t)]);
  const file = process.env['RUNLEDGER_TEST_ENDLESS']!;
  const found = { test: process.pid, shared: shared.superuser_url, own: own.superuser_url };
  writeFileSync(`${file}.tmp`, JSON.stringify(found));
  renameSync(`${file}.tmp`, file);
  setInterval(() => {}, 60_000);
  await new Promise(() => {});
});
