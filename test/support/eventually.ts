/**
 * Polls until `look` is true, and returns whether it ever was. For what no event announces: the end of another process,
 * a closed port. The timeout only bounds a test that fails; it is long, because a loaded machine is slow.
 */
import { setTimeout as wait } from 'node:timers/promises';

const given_ms = Number(process.env['RUNLEDGER_TEST_PATIENCE_MS']);
/** The longest that a test waits for anything. Of a mutant, whose test may wait for ever, it is shorter. */
export const PATIENCE_MS = given_ms || 300_000;
/** Before the test is ended for hanging, so that it says for what it waited. */
const UNTIL_MS = given_ms || 120_000;
const POLL_MS = 10;

export async function eventually(
  look: () => boolean | Promise<boolean>,
  timeout_ms = PATIENCE_MS,
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

/** Throws if the promise does not settle, and names what it is of. */
export async function inTime<T>(promise: Promise<T>, what: string): Promise<T> {
  const late = Symbol();
  let timer: NodeJS.Timeout | undefined;
  const waited = new Promise<typeof late>((resolve) => {
    timer = setTimeout(resolve, PATIENCE_MS, late);
  });
  try {
    const outcome = await Promise.race([promise, waited]);
    if (outcome === late) throw new Error(`it never came: ${what}`);
    return outcome as T;
  } finally {
    clearTimeout(timer);
  }
}
