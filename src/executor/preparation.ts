/**
 * Makes things ahead of need, in boxes, from fixed sources: precompiled headers, a compiler's front. Each
 * is an artefact of the store. Its key is a digest of everything that it was made from, so another
 * compiler gets another key; and it names the boot, because nothing is synced to disk. No such artefact
 * holds a byte of any account.
 */
import { createHash } from 'node:crypto';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { COMPILE_DEFAULTS, type RunLimits } from '../domain/limits.ts';
import type { Step } from '../languages/common/box.ts';
import { PREPARED_PREFIX } from './compile_cache.ts';
import { type BoxRequest, type RunReport, type Sandbox, SandboxFault } from './sandbox.ts';

const MiB = 1024 * 1024;

/** The sources are ours: a slow machine may take its time over them. */
const LIMITS: RunLimits = {
  ...COMPILE_DEFAULTS,
  cpu_ms: 300_000,
  wall_ms: 600_000,
  disk_bytes: 512 * MiB,
};

const ATTEMPTS = 5;

export type PreparedStep = Step & { profile: string; leaves: string };

export class Preparation {
  readonly #sandbox: Pick<Sandbox, 'run'>;
  readonly #artefacts: string;
  readonly #boot: string;
  readonly #made = new Map<string, Promise<string>>();

  constructor(sandbox: Pick<Sandbox, 'run'>, artefacts: string, boot: string) {
    this.#sandbox = sandbox;
    this.#artefacts = artefacts;
    this.#boot = boot;
  }

  /** The key in the store. The first caller makes the artefact; all of them share its failure. */
  ensure(step: PreparedStep): Promise<string> {
    const key = this.#keyOf(step);
    let made = this.#made.get(key);
    if (made === undefined) {
      made = this.#make(key, step);
      this.#made.set(key, made);
    }
    return made;
  }

  #keyOf({ argv, files, load, profile }: PreparedStep): string {
    const sources = files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString('base64')]);
    const facts = JSON.stringify([argv, sources, load, profile]);
    const digest = createHash('sha256').update(facts).digest('hex').slice(0, 32);
    return `${PREPARED_PREFIX}${this.#boot}-${digest}`;
  }

  async #make(key: string, step: PreparedStep): Promise<string> {
    const { leaves, ...request } = step;
    if (await this.#exists(key)) return key;
    const report = await this.#run({
      ...request,
      stdin: new Uint8Array(),
      limits: LIMITS,
      save: { key, paths: [leaves], max_bytes: LIMITS.disk_bytes, max_files: 16 },
    });
    if (report.saved !== undefined || (await this.#exists(key))) return key;
    const said = Buffer.from(report.stderr).toString().slice(0, 500);
    throw new Error(
      `${step.argv.join(' ')} ended with ${report.exit_code ?? report.signal}: ${said}`,
    );
  }

  /** A fault of the sandbox says nothing about the step, and nobody waits for it: try again. */
  async #run(request: BoxRequest): Promise<RunReport> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sandbox.run(request);
      } catch (error) {
        const lasting = !(error instanceof SandboxFault) || error.kind === 'closed';
        if (lasting || attempt === ATTEMPTS) throw error;
      }
    }
  }

  async #exists(key: string): Promise<boolean> {
    const found = await access(join(this.#artefacts, key)).then(
      () => true,
      () => false,
    );
    return found;
  }
}
