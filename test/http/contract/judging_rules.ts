/** Rules of the fields of judged submissions. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { unpackRequest } from '../../../src/judging/packed_request.ts';
import type { Reply } from '../support/call.ts';
import { HELLO } from '../support/service.ts';
import { keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';

const { contract } = chapter('judging');

const MiB = 2 ** 20;
const hello = (more: object) => ({ ...HELLO, ...more });
const file = (path: string, content = '') => ({ path, content });
const CHECKER = { language: 'py', code: 'exit(42)', protocol: 'icpc' };

async function send(stage: Stage, more: object): Promise<Reply> {
  const service = await stage.plain();
  return service.submit(await keyOf(service), hello(more));
}

async function taken(stage: Stage, more: object): Promise<string> {
  const reply = await send(stage, more);
  equal(reply.status, 202, reply.text);
  return reply.json.id;
}

async function rejected(stage: Stage, more: object, ...paths: string[]): Promise<void> {
  rejectedFor(await send(stage, more), ...paths);
}

/** The facts and the request as the log has them. */
async function storedOf(stage: Stage, id: string) {
  const { db } = await stage.plain();
  const [event] = await db`select facts from runledger.events where stream = ${id} and version = 1`;
  const [payload] = await db<{ bytes: Buffer }[]>`
    select bytes from runledger.payloads where stream = ${id} and kind = 'judging'`;
  return { facts: event!['facts'], request: payload && unpackRequest(payload.bytes) };
}

export const judgingRules: Rule[] = [
  contract('a request without any of its fields is stored as before', async (s) => {
    const id = await taken(s, { compare: 'lines' });
    const { facts, request } = await storedOf(s, id);
    equal(request, undefined);
    equal(facts.compare, 'lenient');
    for (const name of ['tests', 'test_set', 'stop']) ok(!(name in facts), name);
    deepEqual(Object.keys(facts.bytes), ['code']);
  }),
  contract('files are 64 at most, of 1 MiB together', async (s) => {
    await taken(s, { files: Array.from({ length: 64 }, (_, n) => file(`${n}`)) });
    await rejected(s, { files: Array.from({ length: 65 }, (_, n) => file(`${n}`)) }, 'files');
    await taken(s, { files: [file('a', 'x'.repeat(MiB - 1)), file('b', 'x')] });
    await rejected(s, { files: [file('a', 'x'.repeat(MiB)), file('b', 'x')] }, 'files');
  }),
  contract('a path of a file names a file below the work folder, and only one', async (s) => {
    for (const path of ['', '/a', '../a', 'a/../b', 'a//b', './a', 'a/', 'a\0', 'main.py']) {
      await rejected(s, { files: [file('ok'), file(path)] }, 'files[1].path');
    }
    await rejected(s, { files: [file('x'.repeat(256))] }, 'files[0].path');
    await rejected(s, { files: [file(`${'a/'.repeat(16)}b`)] }, 'files[0].path');
    await rejected(s, { outputs: [`${'a/'.repeat(30)}*`] }, 'outputs[0]');
    await rejected(s, { stdout_file: `${'a/'.repeat(30)}b` }, 'stdout_file');
    await rejected(s, { files: [file('a'), file('a')] }, 'files[1].path');
    await taken(s, { files: [file('a/b.c'), file('a/..b'), file('x'.repeat(255))] });
  }),
  contract('a file has either content or content_base64', async (s) => {
    const id = await taken(s, { files: [{ path: 'a', content_base64: 'AP8=' }] });
    const { request } = await storedOf(s, id);
    equal(Buffer.from(request!.files[0]!.bytes).toString('hex'), '00ff');
    await rejected(s, { files: [{ path: 'a' }] }, 'files[0].content');
    const both = { ...file('a'), content_base64: '' };
    await rejected(s, { files: [both] }, 'files[0].content_base64');
  }),
  contract('tests are 1 to 256', async (s) => {
    const id = await taken(s, { tests: Array.from({ length: 256 }, () => ({ stdin: 'x' })) });
    const { facts, request } = await storedOf(s, id);
    equal(facts.tests, 256);
    equal(facts.stop, 'first');
    equal(request!.tests!.length, 256);
    await rejected(s, { tests: [] }, 'tests');
    await rejected(s, { tests: Array.from({ length: 257 }, () => ({})) }, 'tests');
  }),
  contract('a mistake in a test is named with its number', async (s) => {
    await rejected(s, { tests: [{}, { stdin: 5 }] }, 'tests[1].stdin');
    await rejected(s, { tests: [{ limits: { memory: -1 } }] }, 'tests[0].limits.memory');
    await rejected(s, { tests: [{ expected: 'x' }] }, 'tests[0].expected');
    await rejected(s, { tests: [{ args: ['a', '\0'] }] }, 'tests[0].args[1]');
    const long = { expected_output: 'x'.repeat(65_537) };
    await rejected(s, { tests: [long] }, 'tests[0].expected_output');
  }),
  contract('tests replace the fields of the same names beside them', async (s) => {
    const given = { stdin: '', expected_output: '' };
    await rejected(s, { ...given, tests: [{}] }, 'stdin', 'expected_output');
    await rejected(s, { stdin_base64: '', test_set: randomUUID() }, 'stdin_base64');
  }),
  contract('stop is first or never, and needs tests', async (s) => {
    const { facts } = await storedOf(s, await taken(s, { tests: [{}], stop: 'never' }));
    equal(facts.stop, 'never');
    await rejected(s, { tests: [{}], stop: 'last' }, 'stop');
    await rejected(s, { stop: 'first' }, 'stop');
  }),
  contract('compare is lines, lenient, exact, or tokens with tolerances', async (s) => {
    const compare = { by: 'tokens', case_sensitive: false, absolute: 1e-6 };
    const { facts, request } = await storedOf(s, await taken(s, { expected_output: '', compare }));
    deepEqual(facts.compare, { ...compare, relative: null });
    deepEqual(request!.compare, facts.compare);
    await rejected(s, { compare: { by: 'tokens', absolute: -1 } }, 'compare.absolute');
    for (const wrong of [{}, { by: 'words' }]) await rejected(s, { compare: wrong }, 'compare.by');
    await rejected(s, { compare: { by: 'tokens', x: 1 } }, 'compare.x');
    for (const wrong of [[], 'tokens', 1]) await rejected(s, { compare: wrong }, 'compare');
  }),
  contract('a checker or an interactor is a program, and one of them judges', async (s) => {
    const checker = { ...CHECKER, language: 'c++', files: [file('testlib.h', 'x')] };
    const { request } = await storedOf(s, await taken(s, { tests: [{}], checker }));
    equal(request!.checker!.language, 'cpp');
    deepEqual(
      request!.checker!.files.map(({ path }) => path),
      ['main.cpp', 'testlib.h'],
    );
    await taken(s, { interactor: CHECKER, transcript: true });
    await rejected(s, { checker: { ...CHECKER, language: 'ruby' } }, 'checker.language');
    await rejected(s, { checker: { ...CHECKER, protocol: 'x' } }, 'checker.protocol');
    await rejected(s, { checker: { language: 'py', code: '' } }, 'checker.protocol');
    await rejected(s, { checker: CHECKER, interactor: CHECKER }, 'interactor');
    await rejected(s, { checker: CHECKER, compare: 'exact' }, 'compare');
    await rejected(s, { transcript: true }, 'transcript');
  }),
  contract('named files and outputs are paths and patterns of the work folder', async (s) => {
    await taken(s, { tests: [{}], stdin_file: 'in/a.txt', stdout_file: 'a.out' });
    await taken(s, { outputs: ['*.png', 'out/*.csv'] });
    await rejected(s, { stdin_file: '../a' }, 'stdin_file');
    await rejected(s, { stdout_file: '*.out' }, 'stdout_file');
    await rejected(s, { stdin_file: 'a', stdout_file: 'a' }, 'stdout_file');
    await rejected(s, { outputs: ['ok', '../*'] }, 'outputs[1]');
    await rejected(s, { outputs: Array.from({ length: 17 }, () => '*') }, 'outputs');
    await rejected(s, { outputs: ['*'], tests: [{}] }, 'outputs');
  }),
  contract('a test set that the account does not have is a 400 that stores nothing', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const headers = { 'idempotency-key': randomUUID() };
    const asked = hello({ test_set: randomUUID() });
    rejectedFor(await service.submit(key, asked, { headers }), 'test_set');
    const reply = await service.submit(key, HELLO, { headers });
    equal(reply.status, 202);
    equal(reply.headers['idempotency-replayed'], undefined);
  }),
  contract('a field that this deployment forbids is forbidden in a test, too', async (s) => {
    const service = await s.narrow();
    const reply = await service.submit(await keyOf(service), hello({ tests: [{}, { args: [] }] }));
    rejectedFor(reply, 'tests[1].args');
    match(reply.text, /not allowed by this deployment/);
  }),
  contract('requests that ask for other judging are other requests', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const headers = { 'idempotency-key': randomUUID() };
    const body = hello({ tests: [{ stdin: 'a' }], files: [file('a')] });
    const first = await service.submit(key, body, { headers });
    const form = { files: [{ path: 'a', content_base64: '' }], tests: [{ stdin_base64: 'YQ==' }] };
    const same = await service.submit(key, { ...form, stop: 'first', ...HELLO }, { headers });
    equal(same.json.id, first.json.id);
    equal(same.headers['idempotency-mismatch'], undefined);
    for (const more of [{ tests: [{ stdin: 'b' }] }, { files: [] }, { stop: 'never' }]) {
      const other = await service.submit(key, { ...body, ...more }, { headers });
      equal(other.json.id, first.json.id);
      equal(other.headers['idempotency-mismatch'], 'true');
    }
  }),
];
