/** A log with what a web process has of it, its witnesses, and a copy of it that went on by itself. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import type { Db } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { NoteSigner, type VerifierKey, WITNESS_KEY } from '../../src/proof/note.ts';
import { type Cosigning, createCosigning } from '../../src/queue/cosigning.ts';
import { createSealer, lastCheckpoint, type Sealer } from '../../src/store/checkpoints.ts';
import { world } from '../store/world.ts';
import { eventually } from '../support/eventually.ts';
import { aWitness } from '../witness/a_witness.ts';
import { copyOf } from './copy_of.ts';

export type Witness = { key: VerifierKey; url: string };
export const NEVER = new AbortController().signal;
export const KEY = createLogKey(Buffer.alloc(32, 7), 'log.test/one');

/** A log, and what a web process has of it. */
export async function aLog(t: Test, key = KEY) {
  const w = await world(t);
  const web = (witnesses: readonly Witness[]) => aWeb(w.web, key, witnesses);
  return { w, db: w.web, web, append: (count: number) => append(w.db, count) };
}

export type Web = {
  sealer: Sealer;
  cosigning: Cosigning;
  metrics: () => Promise<string>;
  round(): Promise<void>;
};

export function aWeb(db: Db, key: typeof KEY, witnesses: readonly Witness[]): Web {
  const sealer = createSealer(key);
  const metrics = createMetrics();
  const log = createLog({ level: 'silent', process: 'web' });
  const cosigning = createCosigning({ witnesses, sealer, log, metrics, every_ms: 1 });
  const round = async () => {
    await Promise.all(cosigning.chores.map((chore) => chore.run(db, NEVER)));
  };
  return { sealer, cosigning, metrics: () => metrics.text(), round };
}

/** Seals all events. Other tests' transactions on the same server may hold the last ones up for a moment. */
export async function sealAll(owner: Db, db: Db, { sealer }: Web): Promise<void> {
  const [{ n } = { n: 0 }] = await owner<{ n: number }[]>`
    select count(*)::integer as n from runledger.events`;
  const isSealed = async () => {
    await sealer.seal(db);
    return ((await lastCheckpoint(db))?.size ?? 0) >= n;
  };
  if (!(await eventually(isSealed))) throw new Error('not sealed');
}

export async function append(db: Db, count: number): Promise<void> {
  await db`
    select runledger.append_events(runledger.permanent_id(), 0, '{account.created}', array['{"name": "x"}'::jsonb])
    from generate_series(1, ${count}::integer)`;
}

export const cosignatures = async (db: Db) =>
  Number((await db`select count(*) as n from runledger.cosignatures`)[0]!['n']);

/** The far end of a stranger. */
export async function aStranger(
  t: Test,
  answer: (res: ServerResponse, body: string) => void,
): Promise<Witness & { asked: string[] }> {
  const asked: string[] = [];
  const server = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    asked.push(`${req.url} ${body}`);
    answer(res, body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { key: STRANGER.verifier, url, asked };
}

export const STRANGER = new NoteSigner('stranger.test', WITNESS_KEY, Buffer.alloc(32, 8));

/** Both went on after the copy was made; the witness saw the original do so. */
export async function forkedAfterCopy(t: Test, events: { original: number; copy: number }) {
  const original = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await original.append(20);
  const first = original.web([witness]);
  await first.round();
  await sealAll(original.w.db, original.db, first);
  await first.round();
  const copy = await copyOf(t, original.w);
  await original.append(events.original);
  await sealAll(original.w.db, original.db, first);
  await first.round();
  t.equal(first.cosigning.states()[0]!.problem, null);
  await append(copy.db, events.copy);
  return { original, copy, witness, first };
}

export const checkpoints = async (db: Db) =>
  Number((await db`select count(*) as n from runledger.checkpoints`)[0]!['n']);
