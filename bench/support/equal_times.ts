/** Do all 401s take equally long, and all 404s? Otherwise their times would reveal which keys and submissions exist. */
import { randomUUID } from 'node:crypto';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import type { Db } from '../../src/db.ts';
import { revokeKey, rotateKey } from '../../src/store/keys.ts';
import { getRequest, type LeanClient, leanClient, submitRequest } from './lean_client.ts';
import { against, type Measure } from './report.ts';
import { median } from './stats.ts';

const TRIES = 2_000;

/** Takes the kinds in turn, so that other load on the machine affects all of them. */
export async function equalTimes(
  db: Db,
  port: number,
  newKey: () => Promise<string>,
): Promise<Measure[]> {
  const [mine, theirs, revoked, expired] = await Promise.all([
    newKey(),
    newKey(),
    newKey(),
    newKey(),
  ]);
  await revokeKey(db, await idOf(db, revoked));
  const rotation = {
    id: await idOf(db, expired),
    secret_digest: secretDigest(newSecret('rl')),
    grace_ms: 0,
  };
  await rotateKey(db, rotation);
  const submitter = await leanClient(port, submitRequest(theirs));
  const { id } = JSON.parse((await submitter.ask()).body);
  submitter.close();
  const path = `/api/result/${randomUUID()}`;
  const unauthorized = await timed(port, 401, {
    'an unknown key': getRequest(newSecret('rl'), path),
    'a revoked key': getRequest(revoked, path),
    'an expired secret': getRequest(expired, path),
  });
  const notFound = await timed(port, 404, {
    'an unknown id': getRequest(mine, path),
    "another account's id": getRequest(mine, `/api/result/${id}`),
  });
  return [...unauthorized, ...notFound];
}

async function idOf(db: Db, secret: string): Promise<string> {
  const [row] = await db`
    select key_id from runledger.key_secrets where digest = ${secretDigest(secret)}`;
  return row!['key_id'];
}

async function timed(
  port: number,
  expected: number,
  kinds: Record<string, string>,
): Promise<Measure[]> {
  const clients: [string, LeanClient, number[]][] = [];
  for (const [kind, request] of Object.entries(kinds)) {
    clients.push([kind, await leanClient(port, request), []]);
  }
  for (let n = 0; n < TRIES; n += 1) {
    for (const [kind, client, ms] of clients) {
      const from = performance.now();
      const { status } = await client.ask();
      ms.push(performance.now() - from);
      if (status !== expected) throw new Error(`${kind}: ${status}`);
    }
  }
  const first = median(clients[0]![2]);
  return clients.map(([kind, client, ms], at) => {
    client.close();
    const name = `${expected} for ${kind}: p50 of ${TRIES}`;
    const was = `${expected}, ${FIRST_NAMES[kind]}: p50 of ${TRIES}`;
    if (at === 0) return { name, was, unit: 'ms', value: first };
    return against(`${name}, over the first`, 'ms', median(ms), first, {
      was: `${was}, over the first`,
      ...{ at_least: 0.83, at_most: 1.2 },
    });
  });
}

/** What the rows were called first, by which bench-compare matches them. */
const FIRST_NAMES: Readonly<Record<string, string>> = {
  'an unknown key': 'unknown',
  'a revoked key': 'revoked',
  'an expired secret': 'expired',
  'an unknown id': 'of nobody',
  "another account's id": "of another's",
};
