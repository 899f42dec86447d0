/** Rules of the queue's bound. */
import { equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { call } from '../support/call.ts';
import { cuttable } from '../support/cuttable.ts';
import { HELLO, type Service } from '../support/service.ts';
import { webProcess } from '../support/web_process.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('queue');

/** A queue of four, two for one account; afterwards nothing is pending. */
async function filled(service: Service, see: (ids: string[]) => Promise<unknown>): Promise<void> {
  const keys = [await service.key(), await service.key()];
  const ids: string[] = [];
  for (const key of [...keys, ...keys]) ids.push((await service.submit(key)).json.id);
  await see(ids);
  const waiting = await service.db<{ id: string }[]>`
    select id from runledger.submissions where status = 'pending'`;
  for (const { id } of waiting) await service.worker.finish(id);
}

export const queueRules: Rule[] = [
  seed('a full queue is a 503', async (s) => {
    const service = await s.small();
    await filled(service, async () => {
      equal((await service.submit(await service.key())).status, 503);
    });
  }),
  contract('queue_full has a Retry-After', async (s) => {
    const service = await s.small();
    await filled(service, async () => {
      const reply = await service.submit(await service.key());
      equal(reply.json.error, 'queue_full');
      match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
      match(reply.json.message, /^The queue is full:/);
    });
  }),
  contract('the message tells an account with half of the queue from a full queue', async (s) => {
    const service = await s.small();
    const key = await service.key();
    const others = await service.key();
    await service.submit(key);
    await service.submit(key);
    await service.submit(others);
    const reply = await service.submit(key);
    equal(reply.json.error, 'queue_full');
    match(reply.json.message, /^Your account has half of the queue/);
    match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
    await filled(service, async () => {});
  }),
  contract('one account has at most half of the queue', async (s) => {
    const service = await s.small();
    const key = await service.key();
    const statuses = [];
    for (let n = 0; n < 3; n += 1) statuses.push((await service.submit(key)).status);
    equal(statuses.join(), '202,202,503');
    await filled(service, async () => {});
  }),
  contract('a start frees its queue place', async (s) => {
    const service = await s.small();
    await filled(service, async ([first]) => {
      await service.worker.start(first!);
      equal((await service.submit(await service.key())).status, 202);
      await service.worker.finish(first!);
    });
  }),
  contract(
    'a repeated Idempotency-Key needs no queue place, and is answered when the queue is full',
    async (s) => {
      const service = await s.small();
      const key = await service.key();
      const headers = { 'idempotency-key': randomUUID() };
      const first = await service.submit(key, HELLO, { headers });
      await service.submit(key);
      await service.submit(await service.key());
      await service.submit(await service.key());
      const again = await service.submit(key, HELLO, { headers });
      equal(again.status, 202);
      equal(again.json.id, first.json.id);
      await filled(service, async () => {});
    },
  ),
  contract(
    'a submission that a full queue rejects stores nothing under its Idempotency-Key',
    async (s) => {
      const service = await s.small();
      const key = await service.key();
      const headers = { 'idempotency-key': randomUUID() };
      await filled(service, async () => {
        equal((await service.submit(key, HELLO, { headers })).status, 503);
      });
      const reply = await service.submit(key, HELLO, { headers });
      equal(reply.status, 202);
      equal(reply.headers['idempotency-replayed'], undefined);
      await service.worker.finish(reply.json.id);
    },
  ),
  contract(
    'gated submissions (over the concurrency limit of their key) count as pending',
    async (s) => {
      const service = await s.plain();
      const key = await service.key({ tier: 'beta' });
      const before = await service.call({ path: '/api/health', key });
      const ids = [];
      for (let n = 0; n < 12; n += 1) ids.push((await service.submit(key)).json.id);
      const after = await service.call({ path: '/api/health', key });
      equal(after.json.queue.pending - before.json.queue.pending, 12);
      for (const id of ids) await service.worker.finish(id);
    },
  ),
  contract('the bound is exact, under any number of simultaneous submitters', async (s) => {
    const service = await s.small();
    const keys = await Promise.all(Array.from({ length: 20 }, () => service.key()));
    const replies = await Promise.all([...keys, ...keys].map((key) => service.submit(key)));
    equal(replies.filter((reply) => reply.status === 202).length, 4);
    ok(replies.every((reply) => reply.status === 202 || reply.json.error === 'queue_full'));
    for (const { status, json } of replies)
      if (status === 202) await service.worker.finish(json.id);
  }),
  contract('503 unavailable with Retry-After when the database is away', async (s) => {
    const service = await s.plain();
    const way = await cuttable(s.t, service.database.urls.web);
    const web = await webProcess(s.t, service.database, { DATABASE_URL: way.url });
    await way.cut();
    const key = await service.key();
    for (const path of ['/api/languages', `/api/result/${randomUUID()}`, '/api/nope']) {
      const reply = await call(web.origin, { path, key });
      equal(reply.status, 503, reply.text);
      equal(reply.json.error, 'unavailable');
      match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
    }
    equal((await call(web.origin, { path: '/api/submit', key, body: HELLO })).status, 503);
    const away = await call(web.origin, { path: '/readyz' });
    equal(away.status, 503);
    equal(away.json.message, 'The database is away.');
    equal((await call(web.origin, { path: '/livez' })).status, 200);
    await way.mend();
    while ((await call(web.origin, { path: '/api/languages', key })).status !== 200);
    await web.stop();
    const why = web.written.find((line) => line.includes('unavailable: The database is away.'));
    match(why ?? '', /"cause":"(E|CON|08)/, 'the log has the cause');
  }),
  contract('503 unavailable with Retry-After when the disk of the database is full', async (s) => {
    const service = await s.plain();
    const [web] = service.webs;
    const key = await service.key();
    // What PostgreSQL raises when it cannot extend a file.
    await service.db
      .unsafe(`create function public.full_disk() returns trigger language plpgsql as
          $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$;
        create trigger full_disk before insert on runledger.submissions
          for each row execute function public.full_disk()`)
      .simple();
    const submit = () => call(web!.origin, { path: '/api/submit', key, body: HELLO });
    const reply = await submit();
    equal(reply.status, 503, reply.text);
    match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
    const ready = () => call(web!.origin, { path: '/readyz' });
    equal((await ready()).json.message, 'The disk of the database is full.');
    equal(
      (await call(web!.origin, { path: '/api/languages', key })).status,
      200,
      'reading goes on',
    );
    ok(web!.written.some((line) => line.includes('could not extend file')));
    await service.db.unsafe('drop function public.full_disk() cascade');
    const { status, json } = await submit();
    equal(status, 202);
    equal((await ready()).status, 200, 'as soon as one is stored');
    await service.worker.finish(json.id);
  }),
];
