/** Which of the things made ahead are ready; making them is begun at start and waited for by nobody who can do without. */
import type { Preparation } from './prepare.ts';
import { prepareHeaders, prepareJavaArchive, prepareJavaFront } from './prepare.ts';
import { SandboxFault } from './sandbox.ts';
import type { Toolchains } from './toolchains.ts';

export type PreparedOptions = {
  preparation: Preparation;
  toolchains: Toolchains;
  /** none: headers are not compiled ahead */
  header_sets: readonly (readonly string[])[];
  log: (message: string, error: Error) => void;
};

export class Prepared {
  readonly #options: PreparedOptions;
  readonly #headers = new Map<readonly string[], string>();
  #archive: string | null = null;
  /** settles when all that could be made is */
  readonly done: Promise<void>;

  constructor(options: PreparedOptions) {
    this.#options = options;
    this.done = this.#makeAll();
  }

  /** The sets that are ready, in their order of preference. */
  get headerSets(): readonly (readonly string[])[] {
    return this.#options.header_sets.filter((set) => this.#headers.has(set));
  }

  headers(set: readonly string[]): string {
    const key = this.#headers.get(set);
    if (key === undefined) throw new Error(`the headers ${set.join(' ')} were not made`);
    return key;
  }

  /** Without it no Java can be compiled, so whoever needs it waits. */
  javaFront(): Promise<string> {
    const { preparation, toolchains } = this.#options;
    if (toolchains.java === null) throw new Error('this machine has no JDK');
    return prepareJavaFront(preparation, toolchains.java);
  }

  get javaArchive(): string | null {
    return this.#archive;
  }

  /** One after the other: runs must find a slot beside them. */
  async #makeAll(): Promise<void> {
    await this.#attempt('the Java compiler', () => this.#makeJava());
    // The plainest first: most programs open with one of those.
    for (const set of this.#options.header_sets.toSorted((a, b) => a.length - b.length)) {
      await this.#attempt(`the headers ${set.join(' ')}`, () => this.#makeHeaders(set));
    }
  }

  async #makeJava(): Promise<void> {
    const { preparation, toolchains } = this.#options;
    if (toolchains.java === null) return;
    const front = await this.javaFront();
    this.#archive = await prepareJavaArchive(preparation, toolchains.java, front);
  }

  async #makeHeaders(set: readonly string[]): Promise<void> {
    const { preparation, toolchains } = this.#options;
    if (toolchains.cpp === null) return;
    this.#headers.set(set, await prepareHeaders(preparation, toolchains.cpp, set));
  }

  /** What cannot be made is done without; a worker that stops wants none of it any more. */
  async #attempt(what: string, make: () => Promise<void>): Promise<void> {
    await make().catch((error: Error) => {
      const stops = error instanceof SandboxFault && error.kind === 'closed';
      if (!stops) this.#options.log(`${what} could not be prepared`, error);
    });
  }
}
