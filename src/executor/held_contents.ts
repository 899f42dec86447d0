/** The contents of one test, from the request or from a test set, held for as long as the test runs. */
import { readFile } from 'node:fs/promises';
import type { Content } from '../judging/judging.ts';
import type { ContentCache, HeldContent } from './content_cache.ts';

/** As a box gets it: with the request to the launcher, or by a key of the store. */
export type BoxContent = { bytes: Uint8Array } | { key: string };

export class HeldContents {
  readonly #cache: ContentCache | null;
  readonly #held: HeldContent[] = [];

  constructor(cache: ContentCache | null) {
    this.#cache = cache;
  }

  async forBox(content: Content): Promise<BoxContent> {
    return 'bytes' in content ? content : { key: (await this.#hold(content)).key };
  }

  async bytesOf(content: Content): Promise<Uint8Array> {
    return 'bytes' in content ? content.bytes : readFile((await this.#hold(content)).path);
  }

  /** The bytes, or the path of the file that has them. */
  async held(content: Content): Promise<Uint8Array | string> {
    return 'bytes' in content ? content.bytes : (await this.#hold(content)).path;
  }

  release(): void {
    for (const held of this.#held.splice(0)) held.release();
  }

  async #hold({ file }: Exclude<Content, { bytes: Uint8Array }>): Promise<HeldContent> {
    if (this.#cache === null) throw new Error('this executor has no cache of contents');
    const held = await this.#cache.hold(file);
    this.#held.push(held);
    return held;
  }
}
