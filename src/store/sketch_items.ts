/** Adds entries to a sketch. */
import { OpenSketch } from '../domain/sketch.ts';
import { type HashText, putText } from '../proof/merkle.ts';
import { copyBytes, STREAM_AT, STREAM_BYTES, VERSION_AT } from './entry_check.ts';

const VERSION_BYTES = 4;

export class SketchItems {
  readonly #open: OpenSketch;

  constructor(sketch: Buffer) {
    this.#open = new OpenSketch(sketch);
  }

  add(entry: Buffer, leaf: HashText): void {
    const { item } = this.#open;
    copyBytes(entry, STREAM_AT, item, STREAM_BYTES);
    copyBytes(entry, VERSION_AT, item, VERSION_BYTES, STREAM_BYTES);
    putText(leaf, item, STREAM_BYTES + VERSION_BYTES);
    this.#open.add();
  }

  get sketch(): Buffer {
    return this.#open.cells;
  }
}
