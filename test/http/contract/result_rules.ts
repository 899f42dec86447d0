/** Rules of GET /api/result/{id} and of the record. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ExecutionOutcome } from '../../../src/judging/execution.ts';
import type { Reply } from '../support/call.ts';
import { plain } from '../support/plain.ts';
import { HELLO, type Service } from '../support/service.ts';
import { keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';

const { seed, contract } = chapter('result');

const FIELDS = [
  'id',
  'status',
  'verdict',
  'exit_code',
  'signal',
  'stdout',
  'stderr',
  'stdout_truncated',
  'stderr_truncated',
  'cpu_time',
  'wall_time',
  'memory_peak',
  'compile',
  'limits',
  'limit_exceeded',
  'tests',
  'score',
  'files',
  'transcript',
  'progress',
  'language',
  'created_at',
  'started_at',
  'completed_at',
  'attempts',
  'proof',
].sort();

async function read(service: Service, id: string, query = ''): Promise<Reply> {
  return service.call({ path: `/api/result/${id}${query}`, key: await keyOf(service) });
}

async function ended(stage: Stage, outcome: Partial<ExecutionOutcome> = {}, query = '') {
  const service = await stage.plain();
  const { json } = await service.submit(await keyOf(service));
  await service.worker.finish(json.id, outcome);
  return read(service, json.id, query);
}

export const resultRules: Rule[] = [
  seed('a completed execution has status completed', async (s) => {
    equal((await ended(s)).json.status, 'completed');
  }),
  seed(
    'the record has id, status, verdict, exit_code, stdout, stderr, cpu_time, wall_time, memory_peak',
    async (s) => {
      const { json } = await ended(s);
      equal(json.verdict, 'AC');
      equal(json.exit_code, 0);
      equal(json.stdout, '42\n');
      equal(json.stderr, '');
      for (const name of ['cpu_time', 'wall_time', 'memory_peak'])
        equal(typeof json[name], 'number');
    },
  ),
  contract('no field is ever missing, in any state', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    deepEqual(Object.keys((await read(service, json.id)).json).sort(), FIELDS);
    await service.worker.start(json.id);
    deepEqual(Object.keys((await read(service, json.id)).json).sort(), FIELDS);
    await service.worker.finish(json.id);
    deepEqual(Object.keys((await read(service, json.id)).json).sort(), FIELDS);
  }),
  contract('it is 200 in every state: pending, running, completed, error', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    const seen = [await read(service, json.id)];
    await service.worker.start(json.id);
    seen.push(await read(service, json.id));
    await service.worker.finish(json.id);
    seen.push(await read(service, json.id));
    seen.push(await ended(s, { status: 'error', verdict: 'IE', exit_code: null }));
    equal(seen.map((reply) => reply.status).join(), '200,200,200,200');
    equal(seen.map((reply) => reply.json.status).join(), 'pending,running,completed,error');
  }),
  contract('until it has ended, the record has nulls', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    const pending = (await read(service, json.id)).json;
    for (const name of FIELDS) {
      const known = ['id', 'status', 'language', 'created_at', 'attempts'].includes(name);
      equal(pending[name] === null, !known, name);
    }
    await service.worker.start(json.id);
    const running = (await read(service, json.id)).json;
    ok(running.started_at !== null && running.completed_at === null && running.stdout === null);
    equal(running.attempts, 1);
  }),
  contract('a plain run has nulls for everything of judging', async (s) => {
    const { json } = await ended(s);
    for (const name of ['tests', 'score', 'files', 'transcript', 'progress']) {
      equal(json[name], null, name);
    }
  }),
  contract('while tests run, progress has how many have ended', async (s) => {
    const service = await s.plain();
    const body = { ...HELLO, tests: [{}, {}] };
    const { json } = await service.submit(await keyOf(service), body);
    equal((await read(service, json.id)).json.progress, null);
    const attempt = await service.worker.start(json.id);
    const { executions } = service.worker;
    await executions.progress({ submission_id: json.id, attempt, done: 1, of: 2 });
    deepEqual((await read(service, json.id)).json.progress, { done: 1, of: 2 });
    await service.worker.finish(json.id);
    equal((await read(service, json.id)).json.progress, null);
  }),
  contract('cpu_time and wall_time are seconds with microsecond resolution', async (s) => {
    const { text } = await ended(s, { cpu_time_us: 12_345, wall_time_us: 1_000_001 });
    match(text, /"cpu_time":0\.012345,"wall_time":1\.000001/);
  }),
  contract('memory_peak is bytes', async (s) => {
    equal((await ended(s, { memory_peak_bytes: 5_000_000_000 })).json.memory_peak, 5_000_000_000);
  }),
  contract('compile is an object, or null for an interpreted language', async (s) => {
    equal((await ended(s)).json.compile, null);
    const compile = {
      cpu_time_us: 1_500_000,
      wall_time_us: 2_000_000,
      memory_peak_bytes: 1024,
      exit_code: 0,
      cached: false,
    };
    deepEqual((await ended(s, { compile })).json.compile, {
      cpu_time: 1.5,
      wall_time: 2,
      memory_peak: 1024,
      exit_code: 0,
      cached: false,
    });
    const unknown = {
      cpu_time_us: null,
      wall_time_us: null,
      memory_peak_bytes: null,
      exit_code: null,
      cached: true,
    };
    deepEqual((await ended(s, { compile: unknown })).json.compile, {
      cpu_time: null,
      wall_time: null,
      memory_peak: null,
      exit_code: null,
      cached: true,
    });
  }),
  contract('signal is the name of the signal that ended the program, else null', async (s) => {
    const { json } = await ended(s, { verdict: 'SIG', exit_code: 139, signal: 'SIGSEGV' });
    equal(json.signal, 'SIGSEGV');
    equal(json.exit_code, 139);
    equal((await ended(s)).json.signal, null);
  }),
  contract('stdout and stderr are UTF-8, invalid sequences as U+FFFD', async (s) => {
    const { json } = await ended(s, {
      stdout: Buffer.from([0x61, 0xff, 0x62, 0xc3]),
      stderr: Buffer.from('é\0😀'),
    });
    equal(json.stdout, 'a\ufffdb\ufffd');
    equal(json.stderr, 'é\0😀');
  }),
  contract(
    'encoding=base64 gives the exact bytes of stdout and stderr, NUL included',
    async (s) => {
      const stdout = Buffer.from([0, 255, 10, 0xc3]);
      const { json } = await ended(s, { stdout, stderr: Buffer.from('e\0') }, '?encoding=base64');
      equal(json.stdout, stdout.toString('base64'));
      equal(json.stderr, Buffer.from('e\0').toString('base64'));
    },
  ),
  contract('encoding is utf8 or base64', async (s) => {
    const service = await s.plain();
    for (const query of ['?encoding=hex', '?encoding=', '?encoding=base64&encoding=base64']) {
      rejectedFor(await read(service, randomUUID(), query), '?encoding');
    }
  }),
  contract('stdout_truncated and stderr_truncated are booleans', async (s) => {
    const { json } = await ended(s, { stdout_truncated: true });
    equal(json.stdout_truncated, true);
    equal(json.stderr_truncated, false);
  }),
  contract(
    'created_at, started_at and completed_at are RFC 3339 in UTC, and in order',
    async (s) => {
      const { json } = await ended(s);
      const times = [json.created_at, json.started_at, json.completed_at];
      for (const time of times) match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/);
      deepEqual([...times].sort(), times);
    },
  ),
  contract('language is the canonical name', async (s) =>
    equal((await ended(s)).json.language, 'python'),
  ),
  contract(
    'IE has no values of a program: exit_code, signal, times and memory are null',
    async (s) => {
      const { json } = await ended(s, {
        status: 'error',
        verdict: 'IE',
        exit_code: null,
        cpu_time_us: null,
        wall_time_us: null,
        memory_peak_bytes: null,
      });
      equal(json.status, 'error');
      for (const name of ['exit_code', 'signal', 'cpu_time', 'wall_time', 'memory_peak']) {
        equal(json[name], null, name);
      }
    },
  ),
  contract('an id that is unknown is a 404', async (s) => {
    const reply = await read(await s.plain(), randomUUID());
    equal(reply.status, 404);
    equal(reply.json.error, 'not_found');
  }),
  contract(
    "an id of another account is a 404, the same to the byte as an unknown one's",
    async (s) => {
      const service = await s.plain();
      const { json } = await service.submit(await service.key());
      const theirs = await read(service, json.id);
      const unknown = await read(service, randomUUID());
      equal(theirs.status, 404);
      equal(plain(theirs), plain(unknown));
    },
  ),
  contract('another key of the same account sees the result', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await service.key({ account: 'shared' }));
    const key = await service.key({ account: 'shared' });
    equal((await service.call({ path: `/api/result/${json.id}`, key })).status, 200);
  }),
  contract('an id that is not a UUID is a 400', async (s) => {
    const service = await s.plain();
    for (const id of ['x', '123', `${randomUUID()}0`, '%00', '..', `{${randomUUID()}}`]) {
      rejectedFor(await read(service, id), 'id');
    }
  }),
  contract('an id in upper case is the same id', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    equal((await read(service, json.id.toUpperCase())).json.id, json.id);
  }),
  contract('wait=true waits until the result is there', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    const waiting = read(service, json.id, '?wait=true');
    await service.worker.finish(json.id);
    equal((await waiting).json.status, 'completed');
  }),
  contract('wait=true ends with the pending record and 200, never 408', async (s) => {
    const service = await s.brief();
    const { json } = await service.submit(await keyOf(service));
    const reply = await read(service, json.id, '?wait=true');
    equal(reply.status, 200);
    equal(reply.json.status, 'pending');
  }),
  contract('wait=true answers at once where the submission has ended', async (s) => {
    const { json } = await ended(s, {});
    const service = await s.plain();
    const took_ms: number[] = [];
    for (let n = 0; n < 6; n += 1) {
      const began = performance.now();
      equal((await read(service, json.id, '?wait=true')).json.status, 'completed');
      took_ms.push(performance.now() - began);
    }
    // Answers by polling would be a second apart from the second one on; one early answer shows that they are not.
    ok(Math.min(...took_ms.slice(1)) < 900, took_ms.join());
  }),
  contract('Prefer: wait=N waits here, too', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await keyOf(service));
    const key = await keyOf(service);
    const waiting = service.call({
      path: `/api/result/${json.id}`,
      key,
      headers: { prefer: 'wait=20' },
    });
    await service.worker.finish(json.id);
    const reply = await waiting;
    equal(reply.json.status, 'completed');
    equal(reply.headers['preference-applied'], 'wait=20');
  }),
  contract(
    'the loss of a worker turns running back into pending, and the next attempt counts',
    async (s) => {
      const service = await s.plain();
      const { json } = await service.submit(await keyOf(service));
      await service.worker.start(json.id);
      await service.worker.executions.release([json.id], 'shutdown');
      equal((await read(service, json.id)).json.status, 'pending');
      await service.worker.start(json.id);
      await service.worker.finish(json.id);
      const reply = await read(service, json.id);
      equal(reply.json.attempts, 2);
      equal(reply.json.status, 'completed');
    },
  ),
  contract('proof is null in a record that is not sealed', async (s) => {
    equal((await ended(s)).json.proof, null);
  }),
  contract('the receipt of an unknown id is a 404, as that of another account', async (s) => {
    const service = await s.plain();
    const { json } = await service.submit(await service.key());
    const theirs = await read(service, json.id, '/proof');
    equal(theirs.status, 404);
    equal(plain(theirs), plain(await read(service, randomUUID(), '/proof')));
  }),
  contract('a service that does not seal answers 501 where a receipt is asked for', async (s) => {
    const { json } = await ended(s);
    const service = await s.plain();
    const reply = await read(service, json.id, '/proof');
    equal(reply.status, 501);
    equal(reply.json.error, 'no_receipts');
  }),
];
