/** Failures of the sandbox. They say nothing about a program. */

export type FaultKind =
  | 'launcher_lost'
  /** The launcher found no isolation on this machine. */
  | 'no_isolation'
  | 'rejected'
  /** A file that the request names is gone from the store. */
  | 'missing'
  /** The machine was full, and the kernel killed a program below its limit. */
  | 'out_of_memory'
  /** The machine lacks something that it needs: room on the disk, memory, a process, or a launcher. */
  | 'no_room'
  | 'cancelled'
  | 'deadline'
  | 'closed';

/** EXIT_NO_ISOLATION in src/sandbox/failure.h. */
export const NO_ISOLATION = 3;

/** The sandbox failed at a request. That says nothing about the program. */
export class SandboxFault extends Error {
  readonly kind: FaultKind;

  constructor(kind: FaultKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SandboxFault';
    this.kind = kind;
  }
}

export const wasMissing = (error: unknown): boolean =>
  error instanceof SandboxFault && error.kind === 'missing';

/** All results; or throws the error of one run, rather than that of a run that was cancelled because of it. */
export async function settledTogether<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  const ends = await Promise.allSettled(runs);
  const errors = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
  const isOwn = (error: unknown) => !(error instanceof SandboxFault && error.kind === 'cancelled');
  if (errors.length > 0) throw errors.find(isOwn) ?? errors[0];
  return Promise.all(runs);
}

export function cancelled(signal?: AbortSignal): SandboxFault {
  return new SandboxFault('cancelled', 'the run was cancelled', { cause: signal?.reason });
}

/** An artefact, or the program in it: something else removed them. A program whose compile made no program is no such fault. */
const IS_MISSING = /^find the artefact|^cannot execute \/load.*: No such file or directory$/;

export function faultOf(text: string): SandboxFault {
  if (text.startsWith('the deadline')) return new SandboxFault('deadline', text);
  if (text.startsWith('the machine was out of memory'))
    return new SandboxFault('out_of_memory', text);
  if (text.startsWith('no room')) return new SandboxFault('no_room', text);
  if (IS_MISSING.test(text)) return new SandboxFault('missing', text);
  return text.startsWith('cancelled') ? cancelled() : new SandboxFault('rejected', text);
}

/** Stops waiting, and leaves the work as it is: others may wait for it, too. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(cancelled(signal));
    // Also of one that is cancelled already: if the work fails, nobody else may handle it, which would end this process.
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
