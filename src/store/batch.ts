/**
 * Many callers share one statement. While a batch is on its way to the database, new items are gathered; when it is answered,
 * the next batch takes all of them. So a single caller does not wait for others, and many callers share one round trip, one
 * commit and one NOTIFY. A batch may linger for more items if no work is delayed by it.
 *
 * What must stay true:
 *   * At most one batch is in flight, and each item is in exactly one batch.
 *   * A batch that the database rejects is tried again item by item, so that one caller's bytes cannot fail the others' items.
 *     A batch that failed because the database is away is not tried again: its items fail, and their callers decide.
 *   * What nobody waits for any more is not sent. What was sent already goes on to its end.
 *   * Owners take turns: what one of them adds does not wait for all that another one has added before.
 */
import { atTurnEnd } from '../turn_end.ts';

export type Batcher<T, R> = { add(item: T): Promise<R> };

type Waiting<T, R> = {
  item: T;
  turn: number;
  until_ms: number;
  resolve(result: R): void;
  reject(error: unknown): void;
};

export type BatcherOptions<T, R> = {
  readonly max_items: number;
  /** Of how many an item consists; 1 if absent. No item is split. */
  readonly size?: (item: T) => number;
  /** The bytes of an item, and of a batch at most: items beyond that go with the next batch. */
  readonly bytes?: (item: T) => number;
  readonly max_bytes?: number;
  /** Whose turn an item takes. Absent: all are of one owner. */
  readonly owner?: (item: T) => string;
  /** So long a caller waits. Absent: for ever. */
  readonly patience_ms?: number;
  /** Until when the caller of an item waits, by performance.now(). Absent: for patience_ms from now. */
  readonly until_ms?: (item: T) => number;
  /** Answers one result for each item, in the same order. */
  readonly run: (items: readonly T[]) => Promise<R[]>;
  readonly isAway: (error: unknown) => boolean;
  /** A batch of fewer than for_items (asked at each arrival) waits for more, at most this long. */
  readonly linger?: { for_items: (items: IteratorObject<T>) => number; ms: number };
  /** The first batch waits for this. Absent: for the end of this turn of the event loop. */
  readonly after?: Promise<void>;
  /** Each batch waits for a place, and gives it back at its end. Items that become late during this wait are not sent. */
  readonly place?: () => Promise<() => void>;
  /** Called whenever all items have their results. */
  readonly onIdle?: () => void;
};

export function createBatcher<T, R>(options: BatcherOptions<T, R>): Batcher<T, R> {
  const { patience_ms = Number.POSITIVE_INFINITY, owner = () => '', size = () => 1 } = options;
  /** By turn, and those of one turn as they came. */
  let queue: Waiting<T, R>[] = [];
  /** The turn of an owner who comes now, and the next turn of each owner who came before. */
  let turn = 0;
  const next_turns = new Map<string, number>();
  let looked_at_ms = 0;
  let inFlight = false;
  let onArrival: (() => void) | null = null;

  async function drain(): Promise<void> {
    inFlight = true;
    // Items of the same turn of the event loop go together, or a burst would send its first item alone.
    await (options.after ?? new Promise<void>(atTurnEnd));
    while (queue.length > 0) {
      if (options.linger) await enough(options.linger);
      const giveBack = await options.place?.();
      const batch = take();
      if (batch.length > 0) await send(batch);
      giveBack?.();
    }
    inFlight = false;
    options.onIdle?.();
  }

  function enough({ for_items, ms }: NonNullable<typeof options.linger>): Promise<void> {
    const items = () => queue.values().map(({ item }) => item);
    const are = () => queue.length >= Math.min(for_items(items()), options.max_items);
    if (are()) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        onArrival = null;
        resolve();
      };
      const timer = setTimeout(done, ms);
      onArrival = () => {
        if (are()) done();
      };
    });
  }

  function take(): Waiting<T, R>[] {
    dropLate();
    let bytes = 0;
    let sum = 0;
    let count = 0;
    for (const { item } of queue) {
      bytes += options.bytes?.(item) ?? 0;
      sum += size(item);
      const is_full = sum > options.max_items || bytes > (options.max_bytes ?? Infinity);
      if (count > 0 && is_full) break;
      count += 1;
    }
    const batch = queue.splice(0, count);
    // It rises with each batch, so that one owner after the other cannot keep all batches from what waits already.
    turn = Math.max(turn, batch.at(-1)?.turn ?? 0) + 1;
    if (queue.length === 0) next_turns.clear();
    else if (next_turns.size > OWNERS_KEPT) forgetOwners();
    return batch;
  }

  /** Its callers have been answered by now, or are about to be. */
  function dropLate(): void {
    looked_at_ms = performance.now();
    if (!queue.some(isLate)) return;
    const late = queue.filter(isLate);
    queue = queue.filter((one) => !isLate(one));
    for (const { reject } of late) reject(tooLate());
  }

  /** Those who would get the turn of now anyway. */
  function forgetOwners(): void {
    for (const [its, next] of next_turns) if (next <= turn) next_turns.delete(its);
  }

  const isLate = ({ until_ms }: Waiting<T, R>) => until_ms <= looked_at_ms;

  function enter(waiting: Omit<Waiting<T, R>, 'turn' | 'until_ms'>): void {
    // A statement that hangs must not keep all that comes behind it.
    if (performance.now() - looked_at_ms > LOOK_EVERY_MS) dropLate();
    const its = owner(waiting.item);
    const its_turn = Math.max(turn, next_turns.get(its) ?? 0);
    next_turns.set(its, its_turn + size(waiting.item));
    const before = queue.findLastIndex((one) => one.turn <= its_turn);
    const until_ms = options.until_ms?.(waiting.item) ?? performance.now() + patience_ms;
    queue.splice(before + 1, 0, { ...waiting, turn: its_turn, until_ms });
  }

  async function send(batch: Waiting<T, R>[]): Promise<void> {
    try {
      const results = await options.run(batch.map(({ item }) => item));
      batch.forEach(({ resolve }, n) => {
        resolve(results[n] as R);
      });
    } catch (error) {
      if (batch.length === 1 || options.isAway(error)) {
        for (const { reject } of batch) reject(error);
        return;
      }
      for (const one of batch) {
        looked_at_ms = performance.now();
        if (isLate(one)) one.reject(tooLate());
        else await send([one]);
      }
    }
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        enter({ item, resolve, reject });
        if (!inFlight) void drain();
        else onArrival?.();
      }),
  };
}

const LOOK_EVERY_MS = 1_000;
const OWNERS_KEPT = 1_000;

/** As if the database had not answered. */
export const tooLate = () =>
  Object.assign(new Error('it waited too long behind others'), { code: 'ETIMEDOUT' });

/**
 * A line of its own for each key. An item that finds its line empty is run alone and at once, if there is a way to run it. Those
 * that come before it has ended form the next batch of their key.
 *
 * What must stay true:
 *   * Items of two keys never share a batch, and a key has at most one batch or lone item in flight.
 *   * An item that is run alone waits for nobody. Batches wait until fewer than `batches_at_once` are in flight: then a burst leaves time for
 *     lone items, in this process and in the database.
 *   * A key without items uses no memory.
 */
export type KeyedBatcher<T, R> = {
  add(key: string, item: T): Promise<R>;
  /** Whether an item of the key waits, or is in flight. */
  has(key: string): boolean;
};

export function createKeyedBatcher<T, R>(options: {
  /** Absent: a lone item is a batch, too. */
  readonly runAlone?: (key: string, item: T) => Promise<R>;
  readonly batches: (key: string) => Omit<BatcherOptions<T, R>, 'after' | 'place' | 'onIdle'>;
  /** The most batches in flight, of all keys. */
  readonly batches_at_once: number;
}): KeyedBatcher<T, R> {
  const lines = new Map<string, { ended: Promise<void> } | Batcher<T, R>>();
  let in_flight = 0;
  const waiting: (() => void)[] = [];

  async function place(): Promise<() => void> {
    if (in_flight < options.batches_at_once) in_flight += 1;
    else await new Promise<void>((go) => waiting.push(go));
    return () => {
      // It goes to the next batch.
      const next = waiting.shift();
      if (next) next();
      else in_flight -= 1;
    };
  }

  function addFirst(key: string, result: Promise<R>): Promise<R> {
    const onEnd = () => {
      if (lines.get(key) === line) lines.delete(key);
    };
    const line = { ended: result.then(onEnd, onEnd) };
    lines.set(key, line);
    return result;
  }

  return {
    has: (key) => lines.has(key),
    add(key, item) {
      const line = lines.get(key);
      if (line === undefined && options.runAlone) return addFirst(key, options.runAlone(key, item));
      if (line !== undefined && 'add' in line) return line.add(item);
      const onIdle = () => lines.delete(key);
      const batcher = createBatcher({
        ...options.batches(key),
        place,
        ...(line && { after: line.ended }),
        onIdle,
      });
      lines.set(key, batcher);
      return batcher.add(item);
    },
  };
}

/** A key by its digest, an account by its id, or somebody who has one. */
export type LineOwner = string | Uint8Array | { readonly account_id: string };

/**
 * Work that cannot share a statement: what is asked for by one owner is done one after the other, whatever it is, so that it
 * holds one connection. A lone one is done at once. What waited for longer than `patience_ms` is not done: nobody waits for it.
 */
export function createLines(
  patience_ms: number,
): <A extends [LineOwner, ...unknown[]], R>(
  work: (...given: A) => Promise<R>,
) => (...given: A) => Promise<R> {
  const lines = new Map<string, Batcher<() => Promise<unknown>, unknown>>();
  const lineOf = (name: string) =>
    createBatcher<() => Promise<unknown>, unknown>({
      max_items: 1,
      patience_ms,
      run: async ([work]) => [await work!()],
      isAway: () => true,
      after: Promise.resolve(),
      onIdle: () => lines.delete(name),
    });
  return <A extends [LineOwner, ...unknown[]], R>(work: (...given: A) => Promise<R>) =>
    (...given: A) => {
      const name = nameOf(given[0]);
      const line = lines.get(name) ?? lineOf(name);
      lines.set(name, line);
      return line.add(() => work(...given)) as Promise<R>;
    };
}

function nameOf(owner: LineOwner): string {
  if (typeof owner === 'string') return owner;
  return 'account_id' in owner ? owner.account_id : Buffer.from(owner).toString('latin1');
}
