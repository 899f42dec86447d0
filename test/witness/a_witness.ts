/** A witness on a real port, in this process, in a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLog, type Log } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import type { VerifierKey } from '../../src/proof/note.ts';
import { WitnessFolder } from '../../src/witness/witness_folder.ts';
import { startWitness } from '../../src/witness/witness_server.ts';

type Test = { teardown(work: () => unknown): void };

export type RunningWitness = {
  readonly url: string;
  readonly key: VerifierKey;
  readonly dir: string;
  add(body: string | Uint8Array): Promise<{ status: number; type: string | null; body: string }>;
  stop(): Promise<void>;
};

export async function temporaryFolder(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'runledger-witness-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

export async function aWitness(
  t: Test,
  logs: readonly VerifierKey[],
  given: { dir?: string; name?: string; port?: number; log?: Log } = {},
): Promise<RunningWitness> {
  const dir = given.dir ?? (await temporaryFolder(t));
  const folder = await WitnessFolder.open(dir, given.name ?? 'witness.test');
  const log = given.log ?? createLog({ level: 'silent', process: 'witness' });
  const where = { host: '127.0.0.1', port: given.port ?? 0 };
  const witness = await startWitness({ folder, logs, ...where, log, metrics: createMetrics() });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= witness.close().then(() => folder.close());
    return stopped;
  };
  t.teardown(stop);
  return {
    url: witness.address,
    key: folder.signer.verifier,
    dir,
    add: (body) => add(witness.address, body),
    stop,
  };
}

export async function add(url: string, body: string | Uint8Array) {
  const sent = await fetch(`${url}/add-checkpoint`, { method: 'POST', body: Buffer.from(body) });
  return {
    status: sent.status,
    type: sent.headers.get('content-type'),
    body: await sent.text(),
  };
}
