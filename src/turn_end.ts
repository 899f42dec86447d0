/**
 * The end of a turn of the event loop, in two parts: what is short comes first, and work that may take milliseconds comes after
 * it. Otherwise a statement whose items were gathered in this turn would be sent after such work, and its callers would wait.
 */
let short: (() => void)[] = [];

/** Before all long work that waits for the same end, also if that was here earlier. */
export function atTurnEnd(work: () => void): void {
  short.push(work);
  if (short.length === 1) setImmediate(doShort);
}

/** After all short work of the same end. */
export function afterTurnEnd(long_work: () => void): void {
  setImmediate(doShort);
  // Node calls these in their order, and settles promises between two of them.
  setImmediate(long_work);
}

function doShort(): void {
  const works = short;
  short = [];
  for (const work of works) work();
}
