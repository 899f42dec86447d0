/** The services that rules are checked on, in several configurations; each starts on first use. */
import type { Db } from '../../../src/db.ts';
import { realWorker } from '../support/real_worker.ts';
import { type Service, startService } from '../support/service.ts';
import type { Test } from '../support/web_process.ts';

/** This machine cannot check the rule. */
export class NotRun extends Error {}

export type Stage = {
  /** two web processes, one database, keys without a limit unless asked for */
  plain(): Promise<Service>;
  /** waits for 1 s at most */
  brief(): Promise<Service>;
  /** a queue of four */
  small(): Promise<Service>;
  /** behind a router */
  proxy(): Promise<Service>;
  /** python only; no args, no webhooks */
  narrow(): Promise<Service>;
  /** with a worker that runs code; NotRun where this machine cannot */
  real(): Promise<Service>;
  /** delivers webhooks to this machine, with two retries after 100 ms each */
  hooked(): Promise<Service>;
  /** a database whose clock the test sets */
  clocked(): Promise<Service & { setClock(seconds: number): Promise<void> }>;
  readonly t: Test;
};

export function createStage(t: Test): Stage {
  const once = <T>(make: () => Promise<T>) => {
    let made: Promise<T> | undefined;
    return () => {
      made ??= make();
      return made;
    };
  };
  return {
    t,
    plain: once(() => startService(t)),
    brief: once(() => startService(t, { env: { RUNLEDGER_WAIT_CAP: '1s' } })),
    small: once(() => startService(t, { env: { RUNLEDGER_QUEUE_CAPACITY: '4' } })),
    proxy: once(() => startService(t, { env: { RUNLEDGER_TLS: 'proxy' } })),
    narrow: once(() =>
      startService(t, {
        webs: 1,
        env: {
          RUNLEDGER_LANGUAGES: 'python',
          RUNLEDGER_FORBIDDEN_FIELDS: 'args',
          RUNLEDGER_WEBHOOK_KEYS: '',
        },
      }),
    ),
    real: once(async () => {
      const service = await startService(t, { webs: 1, hand_languages: [] });
      const cannot = await realWorker(t, service.database);
      if (cannot !== null) throw new NotRun(cannot);
      return service;
    }),
    hooked: once(() =>
      startService(t, {
        env: {
          RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on',
          RUNLEDGER_WEBHOOK_SCHEDULE: '100ms,100ms',
        },
      }),
    ),
    clocked: once(async () => {
      const service = await startService(t);
      const setClock = async (seconds: number) => {
        await setClockOf(service.db, seconds);
        // Without a heartbeat at the new time the worker would count as lost.
        await service.worker.beat();
      };
      await setClock(0);
      return { ...service, setClock };
    }),
  };
}

const EPOCH_S = Date.UTC(2030, 0, 1) / 1000;

/** Stops the clock of this database, so many seconds after a day in 2030. */
export async function setClockOf(db: Db, seconds: number): Promise<void> {
  await db.unsafe(`create or replace function runledger.clock() returns timestamptz
    language sql volatile as $$ select to_timestamp(${EPOCH_S + seconds}) $$`);
}
