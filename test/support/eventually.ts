/**
 * Polls until `look` is true, and returns whether it ever was. For what no event announces: the end of another process,
 * a closed port. The timeout only bounds a test that fails; it is long, because a loaded machine is slow.
 */
import { setTimeout as wait } from 'node:timers/promises';

const TIMEOUT_MS = 300_000;
/** Before the test is ended for hanging, so that it says for what it waited. */
const UNTIL_MS = 120_000;
const POLL_MS = 10;

export async function eventually(
  look: () => boolean | Promise<boolean>,
  timeout_ms = TIMEOUT_MS,
): Promise<boolean> {
  const deadline = performance.now() + timeout_ms;
  while (performance.now() < deadline) {
    if (await look()) return true;
    await wait(POLL_MS);
  }
  return look();
}

/** Throws if it never is: a test that waited for ever would hold up all others. */
export async function until(look: () => boolean | Promise<boolean>): Promise<void> {
  if (!(await eventually(look, UNTIL_MS))) throw new Error(`it never came true: ${look}`);
}
