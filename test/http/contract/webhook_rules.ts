/** Rules of webhooks, checked by a receiver on loopback (the development setting) with a short schedule. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { HELLO, type Service } from '../support/service.ts';
import type { Test } from '../support/web_process.ts';
import { keyOf } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';

const { seed, contract } = chapter('webhook');

type Received = { headers: IncomingHttpHeaders; body: string };
type Receiver = { url: string; received: Received[]; until(count: number): Promise<Received[]> };

/** Answers with each status in turn, and then always with the last. */
export async function receiver(t: Test, statuses: number[], headers = {}): Promise<Receiver> {
  const received: Received[] = [];
  let wake = () => {};
  const server = createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (part) => {
      body += part;
    });
    req.on('end', () => {
      const status = statuses[Math.min(received.length, statuses.length - 1)]!;
      received.push({ headers: req.headers, body });
      res.writeHead(status, { location: '/elsewhere', ...headers }).end();
      wake();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return {
    url,
    received,
    async until(count) {
      while (received.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return received;
    },
  };
}

async function delivered(stage: Stage, statuses: number[], webhook_secret = 'a secret') {
  const service = await stage.hooked();
  const hook = await receiver(stage.t, statuses);
  const body = { ...HELLO, webhook_url: hook.url, webhook_secret };
  const { json, status } = await service.submit(await keyOf(service), body);
  equal(status, 202, JSON.stringify(json));
  await service.worker.finish(json.id);
  return { service, hook, id: json.id as string };
}

async function ended(service: Service, id: string): Promise<string> {
  for (;;) {
    const [row] = await service.db<{ status: string }[]>`
      select status from runledger.deliveries where id = ${id}`;
    if (row !== undefined && row.status !== 'waiting') return row.status;
    await wait(5);
  }
}

function signature(secret: string | Buffer, { headers, body }: Received): string {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  return `v1,${createHmac('sha256', secret).update(signed).digest('base64')}`;
}

export const webhookRules: Rule[] = [
  seed('the result is delivered to webhook_url', async (s) => {
    const { hook } = await delivered(s, [200]);
    const [first] = await hook.until(1);
    equal(JSON.parse(first!.body).data.stdout, '42\n');
  }),
  contract('webhook-id is the id of the submission, webhook-timestamp is now', async (s) => {
    const { hook, id } = await delivered(s, [200]);
    const [first] = await hook.until(1);
    equal(first!.headers['webhook-id'], id);
    ok(Math.abs(Number(first!.headers['webhook-timestamp']) - Date.now() / 1000) < 60);
  }),
  contract('webhook-signature is v1 and HMAC-SHA256 over id, timestamp and body', async (s) => {
    const { hook } = await delivered(s, [200], 'sécret');
    const [first] = await hook.until(1);
    equal(first!.headers['webhook-signature'], signature('sécret', first!));
  }),
  contract('a whsec_ secret signs a second time with the decoded key', async (s) => {
    const key = Buffer.from('a key of some length');
    const secret = `whsec_${key.toString('base64')}`;
    const { hook } = await delivered(s, [200], secret);
    const [first] = await hook.until(1);
    const both = `${signature(secret, first!)} ${signature(key, first!)}`;
    equal(first!.headers['webhook-signature'], both);
  }),
  contract('the body is {type, timestamp, data: the record}', async (s) => {
    const { service, hook, id } = await delivered(s, [200]);
    const [first] = await hook.until(1);
    const body = JSON.parse(first!.body);
    equal(body.type, 'submission.completed');
    match(body.timestamp, /^\d{4}-.*Z$/);
    const key = await keyOf(service);
    deepEqual(body.data, (await service.call({ path: `/api/result/${id}`, key })).json);
  }),
  contract('a failed delivery is retried, with the same bytes and the same id', async (s) => {
    const { service, hook, id } = await delivered(s, [500, 301, 204]);
    const all = await hook.until(3);
    equal(new Set(all.map(({ body }) => body)).size, 1);
    deepEqual(
      all.map(({ headers }) => headers['webhook-id']),
      [id, id, id],
    );
    equal(await ended(service, id), 'delivered');
  }),
  contract('410 ends the delivery', async (s) => {
    const { service, id, hook } = await delivered(s, [410]);
    equal(await ended(service, id), 'gone');
    equal(hook.received.length, 1);
  }),
  contract('the schedule has an end', async (s) => {
    const { service, id, hook } = await delivered(s, [500]);
    equal(await ended(service, id), 'exhausted');
    equal(hook.received.length, 3, 'at once, and after each of the two waits configured here');
  }),
  contract('the secret is in no event, and is deleted when the delivery ends', async (s) => {
    const { service, id } = await delivered(s, [200], 'very-secret-indeed');
    await ended(service, id);
    const [row] = await service.db`select
      (select count(*)::integer from runledger.webhook_secrets where submission_id = ${id}) as kept,
      (select count(*)::integer from runledger.events where facts::text like '%very-secret%') as in_events`;
    deepEqual({ ...row }, { kept: 0, in_events: 0 });
  }),
  contract('delivery never changes a result', async (s) => {
    const { service, id } = await delivered(s, [500]);
    await ended(service, id);
    const reply = await service.call({ path: `/api/result/${id}`, key: await keyOf(service) });
    equal(reply.json.status, 'completed');
    equal(reply.json.verdict, 'AC');
  }),
];
