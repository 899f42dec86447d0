/**
 * A part of the service as a process of its own, started again when it ends unasked.
 *
 * What must stay true: it has the environment that it was given and nothing else of ours; it ends
 * when we end (its channel to us closes, see src/main.ts); and one that says it cannot run on this
 * machine (CANNOT_RUN) is not started again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

/** Exit status of a part to which starting again would change nothing. */
export const CANNOT_RUN = 3;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** One that ran for so long did start: the next pause is short again. */
const RAN_WELL_MS = 60_000;

export type Ready = { address: string | null };
export type Started = { kind: 'ready'; address: string | null } | { kind: 'ended'; code: number };

export type Child = {
  /** How its first start went. */
  readonly first: Promise<Started>;
  /** SIGTERM, and SIGKILL after the patience; settles when nothing of it is left. */
  stop(patience_ms: number): Promise<void>;
};

type Options = {
  command: readonly string[];
  env: NodeJS.ProcessEnv;
  onEnd(code: number, again_in_ms: number | null): void;
};

export function keepRunning(options: Options): Child {
  let stopping = false;
  let current: ChildProcess | null = null;
  const awake = new AbortController();
  const { promise: first, resolve: firstDone } = Promise.withResolvers<Started>();

  const loop = async () => {
    let pause_ms = FIRST_PAUSE_MS;
    while (!stopping) {
      const born = performance.now();
      current = launch(options);
      current.on('message', (ready: Ready) => firstDone({ kind: 'ready', address: ready.address }));
      const code = await ended(current);
      firstDone({ kind: 'ended', code });
      if (stopping) return;
      if (performance.now() - born > RAN_WELL_MS) pause_ms = FIRST_PAUSE_MS;
      options.onEnd(code, code === CANNOT_RUN ? null : pause_ms);
      if (code === CANNOT_RUN) return;
      await wait(pause_ms, null, { signal: awake.signal }).catch(() => {});
      pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS);
    }
  };
  const finished = loop();

  const stop = async (patience_ms: number) => {
    stopping = true;
    awake.abort();
    current?.kill('SIGTERM');
    const killer = setTimeout(() => current?.kill('SIGKILL'), patience_ms);
    await finished;
    clearTimeout(killer);
  };
  return { first, stop };
}

function launch(options: Options): ChildProcess {
  const [program, ...args] = options.command;
  return spawn(program!, args, {
    env: options.env,
    // A session of its own: Ctrl-C reaches us alone, and we stop the parts in order.
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function ended(child: ChildProcess): Promise<number> {
  const [code] = await once(child, 'exit').catch(() => [127]);
  return (code as number | null) ?? 128;
}
