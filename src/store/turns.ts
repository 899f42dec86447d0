/**
 * Turns at something of which there is only so much: the memory for large bodies and answers, or the time of one thread.
 *
 * How it works:
 *   - Each visit has an owner and a weight. The visits that are inside weigh at most `most`, and those of one owner at most
 *     `each`. A visit that exceeds a bound by itself enters when no other one counts to that bound.
 *   - A visit whose weight is not known in advance enters with what there is of it, and grows as more comes.
 *   - The others wait. The owner that has least inside is next, but those who kept others waiting come last: whose visits
 *     were put out (see below) or given up while there was a line, the fewest first. It is forgotten when there is no line, or
 *     `IDLING_MS` after the last such visit. Owners that are equal in both take turns
 *     by weight: the number of a visit is what each owner in line was given so far, and the weight of its owner's line up to
 *     itself. The smallest is next. So one that asks for little does not wait for those that ask for much, and one with many
 *     visits delays another by one turn.
 *   - Visits that have grown until none fits any more would wait for each other. So the heaviest of those that wait is in
 *     front: it grows beyond the bounds, to its end, and no longer counts to them.
 *   - A visit waits for at most `patience_ms` each time. At most `waiting` visits wait: the owner of most of them loses its
 *     last one.
 *   - A visit that took longer than `hold_ms`, without the time that it waited itself, is put out while others wait for its
 *     room: the heaviest one of the owner who has most inside.
 *
 * What must stay true: no visit enters before the one that is next because it weighs less, and the numbers of newcomers grow, so
 * that a heavy one enters at last; and an owner without visits uses no memory.
 */
export type Turns = {
  enter(owner: string, weight: number, wish: TurnWish): Promise<Turn>;
  readonly inside: number;
  readonly waiting: number;
};

/** Busy: the time to wait is over. Gone: the signal fired, or the visit has left. */
export type Turn = Inside | { kind: Refused };
type Refused = 'busy' | 'gone';

export type Inside = {
  kind: 'inside';
  /** Call it when done, or with false if it was not worth its room; further calls do nothing. */
  leave: (is_done?: boolean) => void;
  /** It weighs so much more, if there is room and nobody waits for it. */
  grow: (weight: number) => boolean;
  /** The same when it is its turn. It stays inside if it is refused. */
  growInTurn: (weight: number, signal: AbortSignal) => Promise<'inside' | Refused>;
};

export type TurnWish = {
  /** Gives up the wait. */
  signal: AbortSignal;
  /** Others wait, and this one took too long. True: it leaves now. False: it stays, because the service keeps it. */
  onOverdue: () => boolean;
};

export type TurnsOptions = {
  readonly most: number;
  readonly each: number;
  readonly waiting: number;
  readonly patience_ms: number;
  readonly hold_ms: number;
};

type Visit = {
  readonly owner: string;
  weight: number;
  /** When it entered, later by the time that it has waited since. */
  since_ms: number;
  waits: Waiting | null;
  readonly onOverdue: () => boolean;
};
type Waiting = {
  readonly visit: Visit;
  readonly more: number;
  readonly number: number;
  go: () => void;
  giveUp: () => void;
};

/** How often those who took too long are looked for, while somebody waits. */
const LOOK_MS = 100;
/** Longer than two visits that are put out one after the other, and shorter than the patience of any. */
export const IDLING_MS = 3_000;

export function createTurns(options: TurnsOptions): Turns {
  const { most, each, waiting: waiting_most, patience_ms, hold_ms } = options;
  const inside = new Set<Visit>();
  const weights = new Map<string, number>();
  const queues = new Map<string, Waiting[]>();
  /** How many visits of an owner kept others waiting for nothing, and when the last one did. */
  const idlers = new Map<string, { visits: number; at_ms: number }>();
  let total = 0;
  let front: Visit | null = null;
  /** What each owner was given, had it been in line since the beginning. */
  let given = 0;
  let waiting = 0;
  let looking: NodeJS.Timeout | undefined;

  function fitsOwner(owner: string, more: number): boolean {
    const own = weights.get(owner) ?? 0;
    return own === 0 || own + more <= each;
  }

  const fitsAll = (more: number) => total === 0 || total + more <= most;

  /** Of the first ones of each owner that may, the one whose turn it is. */
  function first(may: (one: Waiting) => boolean): Waiting | undefined {
    const ones = [...queues.values()].flatMap((queue) => queue.find(may) ?? []);
    return ones.reduce<Waiting | undefined>(
      (found, one) => (found === undefined || isBefore(one, found) ? one : found),
      undefined,
    );
  }

  const idlingOf = (owner: string) => idlers.get(owner)?.visits ?? 0;

  function noteIdling(owner: string): void {
    idlers.set(owner, { visits: idlingOf(owner) + 1, at_ms: performance.now() });
  }

  /** One who hung up once must not come last for as long as others keep a line. */
  function forgetIdling(): void {
    const until_ms = performance.now() - IDLING_MS;
    for (const [owner, { at_ms }] of idlers) if (at_ms < until_ms) idlers.delete(owner);
  }

  function isBefore(one: Waiting, other: Waiting): boolean {
    const [a, b] = [one.visit.owner, other.visit.owner];
    const by_idling = idlingOf(a) - idlingOf(b);
    const by_weight = (weights.get(a) ?? 0) - (weights.get(b) ?? 0);
    return (by_idling || by_weight || one.number - other.number) < 0;
  }

  /** Owners that are at their own bounds are passed over. */
  const next = () =>
    first((one) => one === queues.get(one.visit.owner)![0] && fitsOwner(one.visit.owner, one.more));

  /** The heaviest one: it makes the most room for those that are next. Else bodies of one byte could take the front again and again. */
  function nextThatGrows(): Visit | null {
    let found: Visit | null = null;
    for (const visit of inside)
      if (visit.waits !== null && visit.weight > (found?.weight ?? 0)) found = visit;
    return found;
  }

  function admit(): void {
    for (;;) {
      let one = next();
      if (one !== undefined && !fitsAll(one.more)) one = undefined;
      if (one === undefined && front === null) {
        const grower = nextThatGrows();
        one = grower?.waits ?? undefined;
        if (grower !== null) toFront(grower);
      }
      if (one === undefined) break;
      given += one.more / queues.size;
      one.go();
    }
    if (queues.size > 0) {
      looking ??= setInterval(makeRoom, LOOK_MS).unref();
      return;
    }
    looking = void clearInterval(looking);
    idlers.clear();
  }

  function toFront(visit: Visit): void {
    count(visit.owner, -visit.weight);
    front = visit;
  }

  /** As many as are needed leave at once, or a line of many would wait for a look for each. */
  function makeRoom(): void {
    const staying = new Set<Visit>();
    forgetIdling();
    for (let one = overdue(staying); one !== undefined; one = overdue(staying)) {
      if (one.onOverdue()) leave(one, false);
      else staying.add(one);
    }
  }

  function overdue(staying: ReadonlySet<Visit>): Visit | undefined {
    if (queues.size === 0) return undefined;
    const until_ms = performance.now() - hold_ms;
    const helpsAny = next() !== undefined;
    const helpsFront = front !== null && nextThatGrows() !== null;
    let found: Visit | undefined;
    for (const one of inside) {
      if (one.since_ms > until_ms || one.waits !== null || staying.has(one)) continue;
      const helps = one === front ? helpsFront : helpsAny || queues.has(one.owner);
      if (helps && (found === undefined || isHeavier(one, found))) found = one;
    }
    return found;
  }

  function isHeavier(one: Visit, other: Visit): boolean {
    const by_owner = (weights.get(one.owner) ?? 0) - (weights.get(other.owner) ?? 0);
    return by_owner === 0 ? one.weight > other.weight : by_owner > 0;
  }

  function count(owner: string, more: number): void {
    total += more;
    const own = (weights.get(owner) ?? 0) + more;
    if (own > 0) weights.set(owner, own);
    else weights.delete(owner);
  }

  function add(visit: Visit, more: number): void {
    visit.weight += more;
    if (visit !== front) count(visit.owner, more);
  }

  function leave(visit: Visit, is_done = true): void {
    if (!inside.delete(visit)) return;
    if (!is_done) noteIdling(visit.owner);
    if (visit === front) front = null;
    else count(visit.owner, -visit.weight);
    if (visit.waits === null) admit();
    else visit.waits.giveUp();
  }

  function grow(visit: Visit, more: number): boolean {
    const fits = queues.size === 0 && fitsOwner(visit.owner, more) && fitsAll(more);
    if (visit !== front && !fits) return false;
    if (inside.has(visit)) add(visit, more);
    return true;
  }

  function wait(visit: Visit, more: number, signal: AbortSignal): Promise<'inside' | Refused> {
    if (signal.aborted) return Promise.resolve('gone');
    const { owner } = visit;
    const began_ms = performance.now();
    const isNew = !inside.has(visit);
    return new Promise((resolve) => {
      const end = (outcome: 'inside' | Refused) => {
        drop(owner, one);
        visit.waits = null;
        visit.since_ms += performance.now() - began_ms;
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        resolve(outcome);
      };
      const refuse = (why: Refused) => {
        end(why);
        admit();
      };
      const queue = queues.get(owner) ?? [];
      const one: Waiting = {
        visit,
        more,
        number: queue.reduce((sum, before) => sum + before.more, given + more),
        go: () => {
          end('inside');
          inside.add(visit);
          add(visit, more);
        },
        giveUp: () => refuse(isNew || inside.has(visit) ? 'busy' : 'gone'),
      };
      const onAbort = () => refuse('gone');
      const timer = setTimeout(one.giveUp, patience_ms);
      signal.addEventListener('abort', onAbort, { once: true });
      visit.waits = one;
      queue.push(one);
      queues.set(owner, queue);
      waiting += 1;
      admit();
      if (waiting > waiting_most) sendAway();
    });
  }

  function drop(owner: string, one: Waiting): void {
    const queue = queues.get(owner)!;
    queue.splice(queue.indexOf(one), 1);
    if (queue.length === 0) queues.delete(owner);
    waiting -= 1;
  }

  /** The last one of the longest queue. */
  function sendAway(): void {
    let longest: Waiting[] = [];
    for (const queue of queues.values()) if (queue.length > longest.length) longest = queue;
    longest.at(-1)!.giveUp();
  }

  return {
    get inside() {
      return inside.size;
    },
    get waiting() {
      return waiting;
    },
    async enter(owner, weight, { signal, onOverdue }) {
      const since_ms = performance.now();
      const visit: Visit = { owner, weight: 0, since_ms, waits: null, onOverdue };
      const kind = await wait(visit, weight, signal);
      if (kind !== 'inside') return { kind };
      return {
        kind,
        leave: (is_done) => leave(visit, is_done),
        grow: (more) => grow(visit, more),
        growInTurn: (more, its_signal) => wait(visit, more, its_signal),
      };
    },
  };
}
