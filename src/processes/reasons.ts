/** How often the same reason is repeated, for who looks at the newest lines of a log. */
const AGAIN_MS = 3 * 60_000;

/** For a loop that waits: says each reason when it is new, and again while it stays. Two that take turns do not fill a log. */
export function createReasons(
  say: (reason: Error) => void,
  now: () => number = () => performance.now(),
): (reason: Error) => void {
  const said = new Map<string, number>();
  return (reason) => {
    const at_ms = now();
    if (at_ms - (said.get(reason.message) ?? -Infinity) < AGAIN_MS) return;
    said.set(reason.message, at_ms);
    say(reason);
  };
}
