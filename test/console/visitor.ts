/** Operators of a service under test, and their sessions. */
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { createOperator } from '../../src/store/operators.ts';
import { call, type Reply } from '../http/support/call.ts';
import type { Service } from '../http/support/service.ts';
import { eventually } from '../support/eventually.ts';

export type Visitor = {
  readonly cookie: string;
  get(path: string): Promise<Reply>;
  /** With the token of a page, as a browser sends it. */
  post(path: string, fields?: Record<string, string>): Promise<Reply>;
  /** What the form for an address has from its page, and no person writes. */
  hidden(page: string, path: string): Promise<Record<string, string>>;
};

/** A browser says so of what a page of this service causes. */
export const SAME = { 'sec-fetch-site': 'same-origin' };

export const send = (
  service: Service,
  path: string,
  fields: Record<string, string>,
  headers: object,
) => sendTo(service.webs[0]!, path, fields, headers);

export function sendTo(
  { origin }: { origin: string },
  path: string,
  fields: Record<string, string>,
  headers: object,
) {
  return call(origin, {
    path: `/console${path}`,
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  });
}

/** Returns the key of a new one. */
export async function operator(service: Service, name: string): Promise<string> {
  const key = newSecret('rl', 'operator');
  await createOperator(service.db, { name, key_digest: secretDigest(key), operator: 'ada@test' });
  // The process learns of it by a notification.
  await eventually(async () => (await service.call({ path: '/console/sign-in' })).status === 200);
  return key;
}

export async function signIn(service: Service, name: string): Promise<Visitor> {
  const reply = await send(service, '/sign-in', { key: await operator(service, name) }, SAME);
  const cookie = String(reply.headers['set-cookie']).split(';')[0]!;
  const get = (path: string) => service.call({ path: `/console${path}`, headers: { cookie } });
  return {
    cookie,
    get,
    async post(path, fields = {}) {
      const token = / name="token" value="([^"]*)"/.exec((await get('/tiers')).text)?.[1] ?? '';
      return send(service, path, { token, ...fields }, { ...SAME, cookie });
    },
    async hidden(page, path) {
      const { text } = await get(page);
      const [, form = ''] = text.split(`<form method="post" action="/console${path}">`);
      const found = form
        .split('</form>')[0]!
        .matchAll(/ type="hidden" name="(\w+)" value="([^"]*)"/g);
      return Object.fromEntries(Array.from(found, ([, name, value]) => [name!, value!]));
    },
  };
}
