/**
 * A process's membership in the queue: it registers a consumer, proves each second that the consumer lives, looks for consumers
 * that do not, and keeps a runner going through every outage.
 *
 * What must stay true:
 *   * Every acknowledged heartbeat allows the launcher to run on until 4 s after the heartbeat was *sent*; nobody else
 *     starts what we run before 5 s have passed since it was *written*. So a process that is stopped or cut off, and
 *     can notice nothing, has its runs killed before they begin elsewhere.
 *   * The connection that holds the lock is asked again the moment that it closes: a lock that stays free for 200 ms
 *     is taken for our death.
 *   * A consumer that was declared dead never comes back: its leases are others'. What still runs is cut, and the process
 *     registers another.
 *   * While we are not sure to be alive no job is taken.
 *   * Jobs are started by the statement that fetches them. An answer that is lost with its connection leaves executions
 *     that nobody runs: so after each loss the connections are made anew, and what is not in hand is given back.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, type Db, isAway } from '../db.ts';
import type { Log } from '../log.ts';
import {
  advanceEpoch,
  heartbeat,
  leaveQueue,
  registerConsumer,
  type Swept,
  sweep,
} from '../store/consumers.ts';
import type { Membership } from './execute.ts';
import { createHand, type Hand } from './hand.ts';
import { type ConsumerTask, type Links, openLinks } from './links.ts';

export const LEASE_MS = 4000;
const BEAT_MS = 1000;
const SWEEP_MS = 500;
/** After a look that found suspects: a moment longer than sweep() wants a lock to be free. */
const SUSPECT_MS = 250;
const ANSWER_MS = 2000;
/** A webhook may wait so long for others that are fetched with it. */
const WEB_HEEDS_MS = 30;
const AGAIN_MS = 100;
const DRAINED_MS = 20;

export type ConsumerOptions = {
  readonly address: DatabaseAddress | string;
  readonly kind: 'worker' | 'web';
  readonly slots: number;
  /** Tasks under way at once, where one may have left its slot before it has ended; as many as slots if not given. */
  readonly tasks_at_once?: number;
  readonly languages: readonly string[];
  readonly isolation: object;
  readonly tasks: (membership: () => Membership | null) => Readonly<Record<string, ConsumerTask>>;
  /** How many jobs may be fetched now. */
  readonly free: () => number;
  /** So many executions are there to run next; then ends are told several at a time. */
  readonly backlog?: () => number;
  /** We are alive for so long from now. */
  readonly onAlive?: (for_ms: number) => void;
  /** Our leases are another's: what runs must end now. */
  readonly onLost?: () => void;
  readonly onSwept?: (swept: Swept) => void;
  readonly log: Log;
};

export type QueueConsumer = {
  /** Places have become free. */
  wake(): void;
  /** There are jobs: web's connections do not hear of them, most are not for it. */
  news(): void;
  /** Takes no more jobs; settles when the tasks under way have ended. */
  drain(): Promise<void>;
  /** Gives back what is left and closes. */
  leave(given_back: readonly string[]): Promise<void>;
  readonly membership: () => Membership | null;
};

type Member = {
  readonly consumer_id: string;
  readonly lost: AbortController;
  readonly hand: Hand;
  links: Links;
  number: number;
};

export async function joinQueue(options: ConsumerOptions): Promise<QueueConsumer> {
  const { log } = options;
  let member: Member | null = null;
  let acknowledged = 0;
  let swept_at = 0;
  let suspects = false;
  let renew = false;
  let draining = false;
  let closing = false;
  let nudge: () => void = () => {};
  let connection = open();

  const membership = (): Membership | null => {
    const now = member;
    if (now === null) return null;
    const { consumer_id, lost } = now;
    return { consumer_id, lost: lost.signal, executions: () => now.links.executions };
  };
  const tasks = options.tasks(membership);
  const sure = () => performance.now() - acknowledged < LEASE_MS;
  const free = () => (draining || member === null || !sure() ? 0 : options.free());

  function open(): Db {
    // Each name once, so that a look at pg_stat_activity tells whose lock it is.
    return connect(options.address, {
      name: `runledger ${options.kind} heartbeat`,
      max: 1,
      on_close: () => nudge(),
    });
  }

  function link(consumer_id: string, number: number, hand: Hand): Links {
    const onFailed = () => {
      if (draining || member?.number !== number || member.consumer_id !== consumer_id) return;
      renew = true;
      nudge();
    };
    const concurrency = options.tasks_at_once ?? options.slots;
    const { address } = options;
    const heed_ms = options.kind === 'web' ? WEB_HEEDS_MS : 0;
    return openLinks({
      address,
      consumer_id,
      number,
      tasks,
      hand,
      kind: options.kind,
      concurrency,
      heed_ms,
      free,
      backlog: options.backlog ?? (() => 0),
      onFailed,
      log,
    });
  }

  async function register(): Promise<void> {
    const consumer_id = randomUUID();
    const { kind, slots, languages, isolation } = options;
    const lock_key = randomBytes(8).readBigUInt64BE() >> 2n;
    const sent = performance.now();
    await answered(
      registerConsumer(connection, {
        id: consumer_id,
        host: hostname(),
        kind,
        slots,
        languages,
        isolation,
        lock_key,
      }),
    );
    alive(sent);
    const hand = createHand();
    const links = link(consumer_id, 1, hand);
    member = { consumer_id, lost: new AbortController(), hand, links, number: 1 };
    renew = false;
    log.info({ consumer: consumer_id, slots }, 'joined the queue');
  }

  function alive(sent: number): void {
    acknowledged = sent;
    options.onAlive?.(LEASE_MS - (performance.now() - sent));
  }

  async function beat(current: Member): Promise<void> {
    const sent = performance.now();
    if (!(await answered(heartbeat(connection, current.consumer_id)))) return lose(current);
    const wasSure = sure();
    alive(sent);
    if (renew) await relink(current);
    else if (!wasSure) current.links.runner.wake();
  }

  function lose(current: Member): void {
    log.warn(
      { consumer: current.consumer_id },
      'this consumer was declared dead; what it ran is cut',
    );
    member = null;
    options.onLost?.();
    current.lost.abort();
    current.links.leave();
    nudge();
  }

  async function relink(current: Member): Promise<void> {
    const { consumer_id, hand } = current;
    // Another number first: what ends with these links is no news of the next ones, and each question has its own.
    current.number += 1;
    const { number } = current;
    // Before the question: what arrives after it was asked is not known to it, and given back.
    current.links.fence();
    if (!(await answered(advanceEpoch(connection, consumer_id, number, hand.known()))))
      return lose(current);
    renew = false;
    current.links.leave();
    current.links = link(consumer_id, number, hand);
    log.info({ consumer: consumer_id }, 'the database is back');
  }

  async function look(): Promise<void> {
    suspects = false;
    for (;;) {
      const swept = await answered(sweep(connection));
      suspects ||= swept.suspects > 0;
      if (swept.consumer === null) return;
      log.warn({ ...swept }, 'a consumer was found dead; what it ran waits again');
      options.onSwept?.(swept);
    }
  }

  /** A statement that is not answered in time has a peer that is gone: the connection is left. */
  async function answered<T>(statement: Promise<T>): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(Object.assign(new Error('the database did not answer'), { code: 'ETIMEDOUT' }));
    }, ANSWER_MS);
    statement.catch(() => {});
    try {
      return await Promise.race([statement, late]);
    } catch (error) {
      if ((error as { code?: string }).code === 'ETIMEDOUT') {
        void connection.end({ timeout: 0 }).catch(() => {});
        connection = open();
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  let failing = false;
  async function turn(): Promise<number> {
    const now = performance.now();
    try {
      if (member === null) await register();
      else if (now - acknowledged >= BEAT_MS - 10 || failing) await beat(member);
      if (performance.now() - swept_at >= (suspects ? SUSPECT_MS : SWEEP_MS) - 10) {
        swept_at = performance.now();
        await look().catch((error) => {
          if (isAway(error)) throw error;
          log.warn({ err: error }, 'looking for dead consumers failed');
        });
      }
      failing = false;
      return suspects ? SUSPECT_MS : SWEEP_MS * (0.8 + Math.random() * 0.2);
    } catch (error) {
      if (!failing)
        log.warn({ err: error }, isAway(error) ? 'the database is away' : 'no heartbeat');
      failing = true;
      renew = true;
      return AGAIN_MS * (0.5 + Math.random());
    }
  }

  async function live(first: () => void): Promise<void> {
    while (!closing) {
      const { promise, resolve } = Promise.withResolvers<void>();
      nudge = resolve;
      const pause = await turn();
      if (member !== null) first();
      const timer = setTimeout(resolve, pause);
      await promise;
      clearTimeout(timer);
    }
  }

  const joined = Promise.withResolvers<void>();
  const living = live(joined.resolve);
  living.catch(joined.reject);
  await joined.promise;

  return {
    wake: () => member?.links.runner.wake(),
    news: () => member?.links.runner.news(),
    membership,
    async drain() {
      draining = true;
      await member?.links.runner.stop();
      // Tasks of links that were left go on, too.
      while (member !== null && member.hand.known().length > 0) await wait(DRAINED_MS);
    },
    async leave(given_back) {
      closing = true;
      nudge();
      await living;
      const current = member;
      if (current !== null) {
        await answered(leaveQueue(connection, current.consumer_id, given_back)).catch((error) =>
          log.warn({ err: error }, 'left the queue without saying so'),
        );
        await current.links.close();
      }
      await connection.end({ timeout: 1 }).catch(() => {});
    },
  };
}
