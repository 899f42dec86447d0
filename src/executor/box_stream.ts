/** A program that stays: writes go to its standard input, reads come from its standard output. */

import { Duplex } from 'node:stream';
import type { RunReport, Usage } from './launcher_wire.ts';

type Controls = {
  /** no bytes: the end of the input */
  input: (bytes: Uint8Array) => void;
  kill: () => void;
  usage: () => Promise<Usage | null>;
};

const STDERR_KEPT = 64 * 1024;
const NOTHING = new Uint8Array(0);

export class BoxStream extends Duplex {
  id = 0;
  /** settles when the box has a slot */
  readonly opened: Promise<void>;
  /** settles when the program has ended, in whatever way; rejects when the launcher was lost */
  readonly ended: Promise<RunReport>;
  readonly #controls: Controls;
  readonly #opened = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<RunReport>();
  #stderr = Buffer.alloc(0);

  constructor(controls: Controls) {
    super({ emitClose: true, allowHalfOpen: true });
    this.#controls = controls;
    this.opened = this.#opened.promise;
    this.ended = this.#ended.promise;
    this.opened.catch(() => {});
    this.ended.catch(() => {});
  }

  /** The last of what it wrote on standard error. */
  get stderr(): Uint8Array {
    return this.#stderr;
  }

  /** Ends it now; `ended` settles when it is dead. */
  kill(): void {
    this.#controls.kill();
  }

  /** What its control group has used so far; null when it has ended. */
  usage(): Promise<Usage | null> {
    return this.#controls.usage();
  }

  open(): void {
    this.#opened.resolve();
  }

  receive(which: number, bytes: Buffer): void {
    if (which === 1) this.push(bytes);
    else this.#stderr = Buffer.concat([this.#stderr, bytes]).subarray(-STDERR_KEPT);
  }

  finish(report: RunReport): void {
    this.#opened.resolve();
    this.#ended.resolve(report);
    this.push(null);
    this.emit('exit', report);
  }

  fail(error: Error): void {
    this.#opened.reject(error);
    this.#ended.reject(error);
    this.push(null);
    this.emit('exit', null);
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#controls.input(bytes);
    done();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#controls.input(NOTHING);
    done();
  }
}
