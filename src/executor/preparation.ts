/**
 * Makes things ahead of need, in boxes, from fixed sources: precompiled headers, a compiler's front. Each
 * is an artefact of the store. Its key is a digest of everything that it was made from and by, so another
 * version of a compiler gets another key; and it names the boot, because nothing is synced to disk. No such
 * artefact holds a byte of any account.
 *
 * Another process on this machine may use the same folder. So an artefact that a process uses is marked as used
 * from time to time, and only one without a recent mark is removed (`compile_cache.ts`, at a start).
 */
import { createHash } from 'node:crypto';
import { access, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { COMPILE_DEFAULTS, type RunLimits } from '../domain/limits.ts';
import type { Step } from '../languages/common/box.ts';
import { PREPARED_PREFIX } from './compile_cache.ts';
import { makeRoom, type Room } from './disk_full.ts';
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
const MARK_EVERY_MS = 10 * 60_000;

export type PreparedStep = Step & { profile: string; leaves: string; made_by: string };

export type PreparationParts = {
  sandbox: Pick<Sandbox, 'run'>;
  /** the store's folder */
  artefacts_folder: string;
  boot: string;
  /** the caches on the disk of the store */
  rooms: readonly Room[];
};

export class Preparation {
  readonly #parts: PreparationParts;
  readonly #made = new Map<string, Promise<string>>();
  /** Of all that was ever asked for, also where it failed. */
  readonly #steps = new Map<string, PreparedStep>();
  readonly #marking: NodeJS.Timeout;

  constructor(parts: PreparationParts) {
    this.#parts = parts;
    this.#marking = setInterval(() => this.#mark(this.#made.keys()), MARK_EVERY_MS);
    this.#marking.unref();
  }

  close(): void {
    clearInterval(this.#marking);
  }

  /**
   * The key in the store. The first caller makes the artefact; those that wait for it share its failure. A later caller
   * tries again.
   */
  ensure(step: PreparedStep): Promise<string> {
    const key = this.#keyOf(step);
    const known = this.#made.get(key);
    if (known !== undefined) return known;
    this.#steps.set(key, step);
    const made = this.#make(key, step);
    this.#made.set(key, made);
    made.catch(() => this.#made.delete(key));
    return made;
  }

  /**
   * Makes again what something else has removed from the store. True: some of these keys were made here, and all of those are
   * there now. So a run that missed one may be repeated, also where another caller has made it again.
   */
  async renew(keys: readonly string[]): Promise<boolean> {
    const renewed = await Promise.all(keys.map((key) => this.#renewOne(key)));
    return renewed.includes(true);
  }

  async #renewOne(key: string): Promise<boolean> {
    const step = this.#steps.get(key);
    if (step === undefined) return false;
    const known = this.#made.get(key);
    const is_there = known !== undefined && (await known.then(() => this.#exists(key)));
    // Another caller may have found this, too, and have begun to make it.
    if (!is_there && this.#made.get(key) === known) this.#made.delete(key);
    await this.ensure(step);
    return true;
  }

  #keyOf({ argv, files, load, profile, made_by }: PreparedStep): string {
    const sources = files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString('base64')]);
    const facts = JSON.stringify([argv, sources, load, profile, made_by]);
    const digest = createHash('sha256').update(facts).digest('hex').slice(0, 32);
    return `${PREPARED_PREFIX}${this.#parts.boot}-${digest}`;
  }

  async #make(key: string, step: PreparedStep): Promise<string> {
    const { leaves, made_by: _made_by, ...request } = step;
    this.#mark([key]);
    if (await this.#exists(key)) return key;
    const once = () =>
      this.#run({
        ...request,
        stdin: new Uint8Array(),
        limits: LIMITS,
        save: { key, paths: [leaves], max_bytes: LIMITS.disk_bytes, max_files: 16 },
      });
    let report = await once();
    if (report.store_full) {
      // It is tried again also where nothing was left to remove: a compile may have removed it.
      await makeRoom(this.#parts.rooms);
      report = await once();
    }
    if (report.saved !== undefined || (await this.#exists(key))) return key;
    if (report.save_failed !== undefined) throw new SandboxFault('no_room', report.save_failed);
    const said = Buffer.from(report.stderr).toString().slice(0, 500);
    throw new Error(
      `${step.argv.join(' ')} ended with ${report.exit_code ?? report.signal}: ${said}`,
    );
  }

  /** A fault of the sandbox says nothing about the step, and nobody waits for it: try again. */
  async #run(request: BoxRequest): Promise<RunReport> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#parts.sandbox.run(request);
      } catch (error) {
        const lasting = !(error instanceof SandboxFault) || error.kind === 'closed';
        if (lasting || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** One that is not there yet has no mark; its making counts as one. */
  #mark(keys: Iterable<string>): void {
    const now_s = Date.now() / 1_000;
    for (const key of keys)
      utimes(join(this.#parts.artefacts_folder, key), now_s, now_s).catch(() => {});
  }

  async #exists(key: string): Promise<boolean> {
    const found = await access(join(this.#parts.artefacts_folder, key)).then(
      () => true,
      () => false,
    );
    return found;
  }
}
