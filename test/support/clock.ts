/**
 * Time as a test wants it, for the modules of its own process that ask the global `performance`.
 *
 * The global object is replaced and not its `now`: the driver takes that object from node:perf_hooks and computes from it when
 * it connects again. A connection that closed while the time was ahead would otherwise wait for the real time to get there.
 */
type Test = { teardown(work: () => unknown): void };

/** Until `t` ends, `performance.now()` is what `now` says. */
export function replaceClock(t: Test, now: () => number): void {
  const real = Object.getOwnPropertyDescriptor(globalThis, 'performance')!;
  const replaced: Pick<Performance, 'now'> = { now };
  Object.defineProperty(globalThis, 'performance', { value: replaced, configurable: true });
  t.teardown(() => Object.defineProperty(globalThis, 'performance', real));
}

/** Until `t` ends, time goes on and also jumps by what the answered function is called with. */
export function jumpingClock(t: Test): (ms: number) => void {
  const real = performance;
  let jumped = 0;
  replaceClock(t, () => real.now() + jumped);
  return (ms) => {
    jumped += ms;
  };
}
