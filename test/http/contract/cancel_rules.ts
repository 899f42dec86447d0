/** Rules of DELETE /api/submissions/{id}. */

import { deepEqual, equal, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { plain } from '../support/plain.ts';
import { HELLO, type Service } from '../support/service.ts';
import { idOf, keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';
import { receiver } from './webhook_rules.ts';

const { contract } = chapter('cancel');

const cancel = (service: Service, key: string, id: string) =>
  service.call({ path: `/api/submissions/${id}`, key, method: 'DELETE' });

async function submitted(stage: Stage, more: object = {}) {
  const service = await stage.plain();
  const key = await keyOf(service);
  const { json } = await service.submit(key, HELLO, more);
  return { service, key, id: json.id as string };
}

const typesOf = async ({ db }: Service, id: string) =>
  (await db`select type from runledger.events where stream = ${id} order by version`).map(
    ({ type }) => type,
  );

export const cancelRules: Rule[] = [
  contract('a pending submission becomes cancelled, without a verdict', async (s) => {
    const { service, key, id } = await submitted(s);
    const reply = await cancel(service, key, id);
    equal(reply.status, 200, reply.text);
    const { status, verdict, stdout, stderr, started_at, completed_at, attempts } = reply.json;
    deepEqual(
      { status, verdict, stdout, stderr, started_at, attempts },
      { status: 'cancelled', verdict: null, stdout: '', stderr: '', started_at: null, attempts: 0 },
    );
    ok(completed_at !== null);
    const read = await service.call({ path: `/api/result/${id}`, key });
    deepEqual(read.json, reply.json);
  }),
  contract('its job is gone, and no worker starts it', async (s) => {
    const { service, key, id } = await submitted(s);
    await cancel(service, key, id);
    const jobs = await service.db`
      select from graphile_worker._private_jobs where payload ->> 'id' = ${id}`;
    equal(jobs.length, 0);
    const command = { submission_id: id, job_id: '0', priority: 0 };
    equal(await service.worker.executions.start(command), null);
  }),
  contract('a running submission becomes cancelled, and a late report is refused', async (s) => {
    const { service, key, id } = await submitted(s);
    await service.worker.start(id);
    equal((await cancel(service, key, id)).json.status, 'cancelled');
    await service.worker.finish(id).then(
      () => ok(false, 'the report was accepted'),
      (error: Error) => equal(error.message, `${id}: refused`),
    );
    equal((await service.call({ path: `/api/result/${id}`, key })).json.status, 'cancelled');
    deepEqual(await typesOf(service, id), [
      'submission.accepted',
      'execution.started',
      'submission.cancelled',
      'execution.refused',
    ]);
  }),
  contract('the event says which key asked, and by which request', async (s) => {
    const { service, key, id } = await submitted(s);
    const reply = await cancel(service, key, id);
    const [row] = await service.db`
      select actor, request_id, attempt from runledger.audit_timeline
      where submission_id = ${id} and type = 'submission.cancelled'`;
    const key_id = await idOf(service, key);
    const request_id = reply.headers['x-request-id'];
    deepEqual({ ...row }, { actor: `key ${key_id}`, request_id, attempt: 0 });
  }),
  contract('to cancel it again is a 200 with the same record, and no other event', async (s) => {
    const { service, key, id } = await submitted(s);
    const first = await cancel(service, key, id);
    const again = await cancel(service, key, id);
    equal(again.status, 200);
    deepEqual(again.json, first.json);
    deepEqual(await typesOf(service, id), ['submission.accepted', 'submission.cancelled']);
  }),
  contract('20 calls at the same moment make one event', async (s) => {
    const { service, key, id } = await submitted(s);
    const replies = await Promise.all(Array.from({ length: 20 }, () => cancel(service, key, id)));
    equal(new Set(replies.map(({ status, json }) => `${status} ${json.status}`)).size, 1);
    deepEqual(await typesOf(service, id), ['submission.accepted', 'submission.cancelled']);
  }),
  contract('what has ended in another way is a 409 already_ended', async (s) => {
    const { service, key, id } = await submitted(s);
    await service.worker.finish(id);
    const reply = await cancel(service, key, id);
    equal(reply.status, 409);
    equal(reply.json.error, 'already_ended');
    equal((await service.call({ path: `/api/result/${id}`, key })).json.status, 'completed');
  }),
  contract('an unknown id is a 404, as that of another account', async (s) => {
    const { service, id } = await submitted(s);
    const stranger = await service.key();
    const theirs = await cancel(service, stranger, id);
    equal(theirs.status, 404);
    equal(plain(theirs), plain(await cancel(service, stranger, randomUUID())));
    deepEqual(await typesOf(service, id), ['submission.accepted']);
    await service.worker.finish(id);
  }),
  contract('an id that is no UUID, or a parameter, is a 400', async (s) => {
    const { service, key } = await submitted(s);
    rejectedFor(await cancel(service, key, 'seven'), 'id');
    rejectedFor(await cancel(service, key, `${randomUUID()}?force=true`), '?force');
  }),
  contract('web processes are notified of it, so that no call waits for their poll', async (s) => {
    const { service, key, id } = await submitted(s);
    const heard: string[] = [];
    const marked = Promise.withResolvers<void>();
    const listening = await service.db.listen('runledger_done', (payload) => {
      heard.push(payload);
      if (payload === `after ${id}`) marked.resolve();
    });
    await cancel(service, key, id);
    await service.db`select pg_notify('runledger_done', ${`after ${id}`})`;
    await marked.promise;
    await listening.unlisten();
    ok(heard.includes(id));
  }),
  contract('calls that wait are answered with the cancelled record', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const submitting = service.submit(key, HELLO, { path: '/api/submit?wait=true' });
    let id: string | undefined;
    while (id === undefined) {
      const [row] = await service.db<{ id: string }[]>`
        select id from runledger.submissions where key_id = ${await idOf(service, key)}`;
      id = row?.id;
    }
    const reading = service.call({ path: `/api/result/${id}?wait=true`, key });
    await cancel(service, key, id);
    const [submit, read] = await Promise.all([submitting, reading]);
    equal(submit.status, 200);
    equal(submit.json.status, 'cancelled');
    equal(read.json.status, 'cancelled');
  }),
  contract('its Idempotency-Key answers with the cancelled record', async (s) => {
    const headers = { 'idempotency-key': randomUUID() };
    const { service, key, id } = await submitted(s, { headers });
    await cancel(service, key, id);
    for (const path of ['/api/submit', '/api/submit?wait=true']) {
      const again = await service.submit(key, HELLO, { path, headers });
      equal(again.status, 202);
      deepEqual([again.json.id, again.json.status], [id, 'cancelled']);
    }
  }),
  contract('its queue place is free at once', async (s) => {
    const service = await s.small();
    const key = await service.key();
    const { json } = await service.submit(key);
    const other = await service.submit(key);
    equal((await service.submit(key)).status, 503);
    await cancel(service, key, json.id);
    const third = await service.submit(key);
    equal(third.status, 202);
    for (const { id } of [other.json, third.json])
      equal((await cancel(service, key, id)).status, 200);
  }),
  contract('its key has room at once: the oldest gated submission gets a job', async (s) => {
    const service = await s.plain();
    await service.db`select runledger.set_tier('single', 0, 1)`;
    const key = await service.key({ tier: 'single' });
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push((await service.submit(key)).json.id);
    const hasJob = async (id: string) =>
      (await service.db`select from graphile_worker._private_jobs where payload ->> 'id' = ${id}`)
        .length === 1;
    const [first, second, third] = ids as [string, string, string];
    deepEqual(await Promise.all(ids.map(hasJob)), [true, false, false]);
    await service.worker.start(first);
    await cancel(service, key, first);
    ok(await hasJob(second), 'after one that ran');
    // One that is gated has no room to give back.
    await cancel(service, key, third);
    await cancel(service, key, second);
    const [usage] = await service.db`
      select dispatched, gated from runledger.key_usage where key_id = ${await idOf(service, key)}`;
    deepEqual({ ...usage }, { dispatched: 0, gated: 0 });
  }),
  contract('its webhook gets the cancelled record', async (s) => {
    const service = await s.hooked();
    const key = await keyOf(service);
    const hook = await receiver(s.t, [200]);
    const body = { ...HELLO, webhook_url: hook.url, webhook_secret: 'a secret' };
    const { json } = await service.submit(key, body);
    const { json: record } = await cancel(service, key, json.id);
    const [got] = await hook.until(1);
    const { type, data } = JSON.parse(got!.body);
    equal(type, 'submission.completed');
    deepEqual(data, record);
  }),
  contract('each call counts against the rate', async (s) => {
    const service = await s.plain();
    await service.db`select runledger.set_tier('two-a-minute', 2, 1)`;
    const key = await service.key({ tier: 'two-a-minute' });
    const { json } = await service.submit(key);
    equal((await cancel(service, key, json.id)).status, 200);
    equal((await cancel(service, key, json.id)).status, 429);
  }),
  contract('a running program is ended', async (s) => {
    const service = await s.real();
    const key = await keyOf(service);
    const endless = { language: 'python', code: 'while True: pass' };
    const { json, status } = await service.submit(key, endless);
    equal(status, 202, JSON.stringify(json));
    const state = async () =>
      (await service.call({ path: `/api/result/${json.id}`, key })).json.status;
    while ((await state()) !== 'running') await wait(10);
    equal((await cancel(service, key, json.id)).status, 200);
    // Its job is deleted when the worker is done with it.
    const jobs = () => service.db`
      select from graphile_worker._private_jobs where payload ->> 'id' = ${json.id}`;
    while ((await jobs()).length > 0) await wait(10);
    // A program that ran on to its limit would be reported, and the report refused.
    deepEqual(await typesOf(service, json.id), [
      'submission.accepted',
      'execution.started',
      'submission.cancelled',
    ]);
  }),
];
