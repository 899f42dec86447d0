/**
 * The heavy webhooks of weight.bench.ts: the worker whose results they are, and their receiver. They are in a process of their
 * own, because the one that measures would be late while it has them to do.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { constants, setPriority } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../src/db.ts';
import { ended, finisher } from './finished.ts';

export type WebhookOrder = {
  database_url: string;
  consumer: string;
  /** The accounts of the backlog. */
  keys: string[];
  /** The key of the account whose deliveries are timed. */
  other: string;
  /** How many submissions each key of the backlog has. */
  each: number;
  /** Of each of the two outputs. */
  output_bytes: number;
};

/** How many milliseconds each delivery of the other account took, and how many of the backlog came. */
export type WebhookOutcome = { took_ms: number[]; arrived: number };

const RECEIVER_MS = 100;
/** For the last deliveries. */
const LAST_MS = 120_000;

// Real workers and receivers are on machines of their own. These take what the service leaves of the processors.
setPriority(constants.priority.PRIORITY_LOW);

process.once('message', async (order: WebhookOrder) => {
  process.send!(await backlog(order));
});

/** The receiver stays for what fails to come in time. */
async function backlog(order: WebhookOrder): Promise<WebhookOutcome> {
  const arrived = new Set<string>();
  let onArrived = (_id: string) => {};
  const receiver = createServer(async (req, res) => {
    const id = String(req.headers['webhook-id']);
    arrived.add(id);
    onArrived(id);
    await wait(RECEIVER_MS);
    req.resume().on('end', () => res.writeHead(204).end());
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const db = connect(order.database_url, { name: 'runledger bench backlog', max: 8 });
  const runs = finisher(db, order.consumer);
  const output = Buffer.alloc(order.output_bytes);
  const took_ms: number[] = [];
  for (let n = 0; n < order.each; n += 1) {
    await Promise.all(
      order.keys.map((key) => ended(runs, key, { stdout: output, stderr: output }, url)),
    );
    if (n % 6 !== 5) continue;
    const id = await ended(runs, order.other, {}, url);
    const from = performance.now();
    await new Promise<void>((resolve) => {
      onArrived = (each) => each === id && resolve();
      if (arrived.has(id)) resolve();
    });
    took_ms.push(performance.now() - from);
  }
  await db.end({ timeout: 1 });
  // Until then the process that is measured is at work.
  const all = order.each * order.keys.length + took_ms.length;
  for (const end = Date.now() + LAST_MS; arrived.size < all && Date.now() < end; ) await wait(50);
  return { took_ms, arrived: arrived.size - took_ms.length };
}
