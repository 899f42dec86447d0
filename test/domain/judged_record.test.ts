import { createHash } from 'node:crypto';
import t from 'tap';
import * as v from 'valibot';
import {
  factsOf,
  JUDGING_FIELDS,
  packFiles,
  packTeamMessages,
  packTests,
  renderFiles,
  renderTests,
} from '../../src/domain/judged_record.ts';
import { JUDGING_FACTS } from '../../src/domain/judging_facts.ts';
import { textOf } from '../../src/domain/record.ts';
import { notRun, type TestOutcome } from '../../src/judging/outcome.ts';

const RUN: TestOutcome = {
  ...notRun({ n: 1, name: 'é\0"', group: 'data/secret' }),
  verdict: 'WA',
  exit_code: 0,
  signal: null,
  limit_exceeded: 'processes',
  cpu_time_us: 9_214,
  wall_time_us: 11_873,
  memory_peak_bytes: 4_096,
  message: 'line 3\nis wrong',
  team_message: 'no',
  score: 2.5,
  stdout: Uint8Array.of(0x61, 0xff, 0, 0x0a),
  stderr: new Uint8Array(),
  stdout_truncated: true,
};
const OUTCOMES = [RUN, notRun({ n: 2, name: '2', group: '' })];
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');

t.test('a record shows each test, in the fields of the contract', async (t) => {
  const tests = renderTests(factsOf(OUTCOMES), packTests(OUTCOMES), textOf);
  t.strictSame(tests, [
    {
      n: 1,
      name: 'é\0"',
      group: 'data/secret',
      verdict: 'WA',
      exit_code: 0,
      signal: null,
      cpu_time: 0.009214,
      wall_time: 0.011873,
      memory_peak: 4_096,
      limit_exceeded: 'processes',
      message: 'line 3\nis wrong',
      stdout: 'a\ufffd\0\n',
      stderr: '',
      stdout_truncated: true,
      stderr_truncated: false,
    },
    {
      n: 2,
      name: '2',
      group: '',
      verdict: null,
      exit_code: null,
      signal: null,
      cpu_time: null,
      wall_time: null,
      memory_peak: null,
      limit_exceeded: null,
      message: null,
      stdout: '',
      stderr: '',
      stdout_truncated: false,
      stderr_truncated: false,
    },
  ]);
  t.ok(v.is(JUDGING_FIELDS.tests, tests));
  const exact = renderTests(factsOf(OUTCOMES), packTests(OUTCOMES), base64);
  t.equal(exact[0]!.stdout, base64(RUN.stdout), 'with the encoding that was asked for');
});

t.test('the payload of a record with exact bytes is that of the outcomes', async (t) => {
  const shown = renderTests(factsOf(OUTCOMES), packTests(OUTCOMES), base64);
  const again = shown.map(({ name, group, message, stdout, stderr }) => ({
    ...{ name: name!, group: group!, message },
    ...{ stdout: Buffer.from(stdout!, 'base64'), stderr: Buffer.from(stderr!, 'base64') },
  }));
  t.equal(String(packTests(again)), String(packTests(OUTCOMES)));
});

t.test('messages to the team are a payload of their own, if there is one', async (t) => {
  t.equal(String(packTeamMessages(OUTCOMES)), '["no",null]');
  t.equal(packTeamMessages(OUTCOMES.map((each) => ({ ...each, team_message: '' }))), null);
  t.notMatch(String(packTests(OUTCOMES)), '"no"');
});

t.test('after a purge the verdicts and the measures remain', async (t) => {
  const tests = renderTests(factsOf(OUTCOMES), null, textOf);
  const gone = { name: null, group: null, message: null, stdout: null, stderr: null };
  t.match(tests[0], { ...gone, n: 1, verdict: 'WA', memory_peak: 4_096, stdout_truncated: true });
  t.ok(v.is(JUDGING_FIELDS.tests, tests));
  t.equal(renderFiles(null), null);
});

t.test('facts have no text of a user, and match their schema', async (t) => {
  const facts = { tests: factsOf(OUTCOMES), score: 2.5 };
  t.ok(v.is(v.strictObject(JUDGING_FACTS), facts));
  t.ok(v.is(v.strictObject(JUDGING_FACTS), {}), 'an event of before has neither');
  t.ok(v.is(v.strictObject(JUDGING_FACTS), { tests: null, score: null }));
  const stored = JSON.stringify(facts);
  for (const text of ['secret', 'wrong', 'é', base64(RUN.stdout)]) t.notMatch(stored, text);
});

t.test('files are shown with their size, hash and bytes', async (t) => {
  const bytes = Uint8Array.of(0, 255, 10);
  const files = renderFiles(
    packFiles([
      { path: 'out/a.png', bytes },
      { path: 'é', bytes: Buffer.alloc(0) },
    ]),
  );
  t.strictSame(files?.[0], {
    path: 'out/a.png',
    size: 3,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    content_base64: 'AP8K',
  });
  t.match(files?.[1], { path: 'é', size: 0, content_base64: '' });
  t.ok(v.is(JUDGING_FIELDS.files, files));
});

t.test('progress is a count of tests, or null', async (t) => {
  t.ok(v.is(JUDGING_FIELDS.progress, { done: 3, of: 10 }));
  t.ok(v.is(JUDGING_FIELDS.progress, null));
  t.notOk(v.is(JUDGING_FIELDS.progress, { done: 0.5, of: 10 }));
});
