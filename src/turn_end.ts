/**
 * The end of a turn of the event loop, in two parts: what is short comes first, and work that may take milliseconds comes after
 * it. Otherwise a statement that was gathered in this turn would be sent after such work, and each request would wait for it.
 */
let short: (() => void)[] = [];
let isPlanned = false;

/** Before all long work that waits for the same end, also if that was here earlier. */
export function atTurnEnd(work: () => void): void {
  plan();
  short.push(work);
}

export function afterTurnEnd(long_work: () => void): void {
  plan();
  // Node calls these in their order, and settles promises between two of them.
  setImmediate(long_work);
}

function plan(): void {
  if (isPlanned) return;
  isPlanned = true;
  setImmediate(() => {
    isPlanned = false;
    const works = short;
    short = [];
    for (const work of works) work();
  });
}
