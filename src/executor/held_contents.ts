/** The contents of one test, from the request or from a test set, held for as long as the test runs. */
import type { Content } from '../judging/judging.ts';
import type { ContentCache, HeldContent } from './content_cache.ts';
import { orAborted } from './sandbox_fault.ts';

/** As a box gets it: with the request to the launcher, or by a key of the store. */
export type BoxContent = { bytes: Uint8Array } | { key: string };

export class HeldContents {
  readonly #cache: ContentCache | null;
  readonly #signal: AbortSignal;
  /** By their hashes: one that is needed several times is checked once. */
  readonly #held = new Map<string, HeldContent>();
  #is_released = false;

  /** The signal ends the wait for a content that is being fetched. Others may wait for the same, so the fetch goes on. */
  constructor(cache: ContentCache | null, signal: AbortSignal) {
    this.#cache = cache;
    this.#signal = signal;
  }

  async forBox(content: Content): Promise<BoxContent> {
    return 'bytes' in content ? content : { key: (await this.#hold(content)).key };
  }

  async bytesOf(content: Content): Promise<Uint8Array> {
    return 'bytes' in content ? content.bytes : (await this.#hold(content)).bytes();
  }

  /** The path of a content of the store. What is read there may have changed since it was hashed. */
  async pathOf(content: Exclude<Content, { bytes: Uint8Array }>): Promise<string> {
    return (await this.#hold(content)).path;
  }

  /** For good: of contents that are fetched together one may fail, and the others come after this. They are let go, too. */
  release(): void {
    this.#is_released = true;
    for (const held of this.#held.values()) held.release();
    this.#held.clear();
  }

  async #hold({ file }: Exclude<Content, { bytes: Uint8Array }>): Promise<HeldContent> {
    if (this.#cache === null) throw new Error('this executor has no cache of contents');
    const known = () => this.#held.get(file.sha256);
    const held = known() ?? (await this.#heldInTime(this.#cache.hold(file)));
    if (this.#is_released) {
      held.release();
      throw new Error(`the content ${file.sha256} came after the release`);
    }
    // Another call may have held it at the same time.
    const first = known() ?? held;
    if (first !== held) held.release();
    this.#held.set(file.sha256, first);
    return first;
  }

  async #heldInTime(holding: Promise<HeldContent>): Promise<HeldContent> {
    try {
      return await orAborted(holding, this.#signal);
    } catch (error) {
      // It may still come, and nobody would give it back.
      if (this.#signal.aborted) void holding.then((held) => held.release()).catch(() => {});
      throw error;
    }
  }
}
