/** Requests and checks that several chapters share. */
import { equal, ok } from 'node:assert/strict';
import { secretDigest } from '../../../src/access/secret.ts';
import { type Reply, wire } from '../support/call.ts';
import type { Service } from '../support/service.ts';
import type { Stage } from './stage.ts';

/** One key for each service, without a limit. */
const keys = new WeakMap<Service, Promise<string>>();
export function keyOf(service: Service): Promise<string> {
  const known = keys.get(service) ?? service.key();
  keys.set(service, known);
  return known;
}

/** A 400 that names these fields, and no others. */
export function rejectedFor(reply: Reply, ...paths: string[]): void {
  equal(reply.status, 400, reply.text);
  equal(reply.json.error, 'invalid_request');
  const named = reply.json.fields.map((field: { path: string }) => field.path).sort();
  equal(named.join(' '), [...paths].sort().join(' '), reply.text);
  for (const field of reply.json.fields) ok(field.message.length > 5);
}

export async function idOf(service: Service, secret: string): Promise<string> {
  const [row] = await service.db`
    select key_id from runledger.key_secrets where digest = ${secretDigest(secret)}`;
  return row!['key_id'];
}

export const languages = (service: Service, key?: string) =>
  service.call({ path: '/api/languages', key });

/** Sends bytes to the first process, and returns everything that arrives until the connection ends. */
export async function raw(stage: Stage, text: string | Uint8Array): Promise<string> {
  const service = await stage.plain();
  const line = wire(service.webs[0]!.port);
  line.send(text);
  const answer = await line.ended();
  line.socket.destroy();
  return answer;
}

export const statusesIn = (text: string) =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((found) => found[1]);

export const post = (key: string, more: string, body = '') =>
  `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n${more}\r\n${body}`;
