/**
 * How many executions this worker runs at once, over every runner that it had.
 *
 * Places are handed out in the order they were asked for. Whoever asks for all of them (a submission that took a
 * worker down before) waits until everyone else has left and runs without neighbours; from the moment that it asks
 * nobody comes in before it, so it cannot starve.
 */
export type Slots = {
  /** How many jobs may be fetched now; what waits already counts as taken. */
  free(): number;
  /** Waits for a place, or for all of them, and gives the function that leaves again (once; more is harmless). */
  take(alone: boolean): Promise<() => void>;
  readonly taken: number;
};

type Waiting = { alone: boolean; enter(): void };

export function createSlots(count: number, onFree: () => void): Slots {
  const waiting: Waiting[] = [];
  let taken = 0;

  const fits = (alone: boolean) => (alone ? taken === 0 : taken < count);

  function enter(alone: boolean): void {
    taken += alone ? count : 1;
  }

  function leave(alone: boolean): void {
    taken -= alone ? count : 1;
    while (waiting.length > 0 && fits(waiting[0]!.alone)) waiting.shift()!.enter();
    onFree();
  }

  return {
    free: () => (waiting.length > 0 ? 0 : Math.max(count - taken, 0)),
    get taken() {
      return taken;
    },
    async take(alone) {
      if (waiting.length > 0 || !fits(alone)) {
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.push({
          alone,
          enter: () => {
            enter(alone);
            resolve();
          },
        });
        await promise;
      } else enter(alone);
      let inside = true;
      return () => {
        if (!inside) return;
        inside = false;
        leave(alone);
      };
    },
  };
}
