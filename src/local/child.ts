/**
 * A child process that is restarted when it ends unexpectedly.
 *
 * What must stay true:
 * - It gets the environment that `options.env` names, and nothing else of ours.
 * - It ends when this process ends: its IPC channel closes, and it stops (stop_request.ts).
 * - It is not restarted if it exits with CANNOT_RUN and was never ready. One that was ready may lack something only for a while.
 *   With `must_start` it is not restarted after any other exit before it was ready, either.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

/** The exit status that means: it cannot run here as things are. */
export const CANNOT_RUN = 3;
/** The backoff between restarts doubles from the first to the longest. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** A child that ran this long counts as healthy: the backoff starts over. */
const HEALTHY_AFTER_MS = 60_000;

export type Ready = { address: string | null };
export type Started = { kind: 'ready'; address: string | null } | { kind: 'ended' };

/** How a process ended: by itself, by a signal, or it could not be started. */
export type End =
  | { readonly code: number }
  | { readonly signal: NodeJS.Signals }
  | { readonly problem: string };

export function endText(end: End): string {
  if ('problem' in end) return `could not be started (${end.problem})`;
  return 'signal' in end ? `was ended by ${end.signal}` : `ended with status ${end.code}`;
}

export type Child = {
  /** The outcome of the first start that no signal ended. */
  readonly first: Promise<Started>;
  /** Sends SIGTERM, and SIGKILL after the timeout. Resolves when the process has ended. */
  stop(timeout_ms: number): Promise<void>;
};

type Options = {
  command: readonly string[];
  env: NodeJS.ProcessEnv;
  must_start?: boolean;
  /** `restart_in_ms` is null when it is not restarted. */
  onEnd(end: End, restart_in_ms: number | null): void;
};

export function keepRunning(options: Options): Child {
  let stopping = false;
  let current: ChildProcess | null = null;
  const sleep = new AbortController();
  const { promise: first, resolve: firstDone } = Promise.withResolvers<Started>();

  const loop = async () => {
    let pause_ms = FIRST_PAUSE_MS;
    let was_ready = false;
    while (!stopping) {
      const born = performance.now();
      current = launch(options);
      current.on('message', (ready: Ready) => {
        was_ready = true;
        firstDone({ kind: 'ready', address: ready.address });
      });
      const end = await ended(current);
      if (stopping || !('signal' in end)) firstDone({ kind: 'ended' });
      if (stopping) return;
      if (performance.now() - born > HEALTHY_AFTER_MS) pause_ms = FIRST_PAUSE_MS;
      const gives_up = options.must_start ? !('signal' in end) : isCannotRun(end);
      const cannot_run = gives_up && !was_ready;
      options.onEnd(end, cannot_run ? null : pause_ms);
      if (cannot_run) return;
      await wait(pause_ms, null, { signal: sleep.signal }).catch(() => {});
      pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS);
    }
  };
  const finished = loop();

  const stop = async (timeout_ms: number) => {
    stopping = true;
    sleep.abort();
    current?.kill('SIGTERM');
    const killer = setTimeout(() => current?.kill('SIGKILL'), timeout_ms);
    await finished;
    clearTimeout(killer);
  };
  return { first, stop };
}

const isCannotRun = (end: End) => 'code' in end && end.code === CANNOT_RUN;

function launch(options: Options): ChildProcess {
  const [program, ...args] = options.command;
  return spawn(program!, args, {
    env: options.env,
    // Its own session: Ctrl-C in a terminal reaches only this process, which stops its children in order.
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function ended(child: ChildProcess): Promise<End> {
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals];
    return code === null ? { signal } : { code };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
