/**
 * A process that has nothing to do gives memory back. V8 keeps the pages of a young generation that has grown, and collects
 * what is old only when more is allocated. That was a sixth of the memory of web, worker and `serve` at rest.
 *
 * It takes some twenty milliseconds, in which the process does nothing else. So it happens seldom, and only if it is worth it.
 */
import { Session } from 'node:inspector/promises';

/** For so long it has done nothing else. */
const LOOK_MS = 1_000;
/** Heartbeats and polls take less of the time. */
const BUSY = 0.05;
/** As often as this at most. */
const PAUSE_MS = 60_000;
/** More than a process at rest allocates in that pause. */
const WORTH_BYTES = 8 * 1024 * 1024;

export function giveBackMemory({ look_ms, pause_ms } = { look_ms: LOOK_MS, pause_ms: PAUSE_MS }) {
  let before = performance.eventLoopUtilization();
  let kept_bytes = 0;
  let next_at = 0;
  const look = async () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization > BUSY || performance.now() < next_at) return;
    if (process.memoryUsage.rss() < kept_bytes + WORTH_BYTES) return;
    next_at = performance.now() + pause_ms;
    await collect();
    kept_bytes = process.memoryUsage.rss();
  };
  // What cannot be given back is kept.
  setInterval(() => look().catch(() => {}), look_ms).unref();
}

/** Only this also gives the emptied pages back to the system, of all that V8 offers to a process that runs. */
async function collect(): Promise<void> {
  const session = new Session();
  session.connect();
  try {
    await session.post('HeapProfiler.collectGarbage');
  } finally {
    session.disconnect();
  }
}
