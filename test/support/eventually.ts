/**
 * Polls until `look` is true, and returns whether it ever was. For what no event announces: the end of another process,
 * a closed port. The timeout only bounds a test that fails; it is long, because a loaded machine is slow.
 */
import { setTimeout as wait } from 'node:timers/promises';

const TIMEOUT_MS = 300_000;
const POLL_MS = 20;

export async function eventually(look: () => boolean | Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + TIMEOUT_MS;
  while (performance.now() < deadline) {
    if (await look()) return true;
    await wait(POLL_MS);
  }
  return look();
}
