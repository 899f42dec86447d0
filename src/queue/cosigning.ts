/**
 * The chores that show each new checkpoint to the witnesses: one for each witness, so that one that is slow or away delays
 * no other, and is asked one thing at a time.
 *
 * What must stay true: while a witness has another tree than ours, this process signs nothing (Sealer.stop). The first thing
 * that a process does is ask every witness, about a checkpoint that it has cosigned, too. Where the database has none, it
 * asks about the empty tree, which every tree extends: a witness that has cosigned more says so. If the newest checkpoint
 * has another name than ours, it also asks about the newest under our name: a witness may have cosigned more of that than
 * the database has. No tree of events is signed before each has answered, or has given no answer (Sealer.hold): so a
 * database that was restored from a copy, or emptied, is found out before it is built on, if a witness can be reached.
 * Nothing that the database says ends this wait. A witness that cosigns our newest checkpoint has no other tree.
 *
 * A witness is believed without a proof. So a lying one can halt our sealing until the operator removes it, and can do no
 * other harm. A log that could ignore an honest witness would prove nothing.
 */
import type { Db } from '../db.ts';
import { createLog, type Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import type { VerifierKey } from '../proof/note.ts';
import {
  emptyCheckpoint,
  lastCheckpoint,
  type Sealer,
  type StoredCheckpoint,
  type Wait,
} from '../store/checkpoints.ts';
import { readCosigned, type WitnessState, witnessName } from '../store/cosignatures.ts';
import { cosign } from './cosign.ts';
import type { Chore } from './maintain.ts';

export type Cosigning = {
  readonly chores: readonly Chore[];
  /** Why the sealer is held; null if it is not. */
  waitsFor(): Wait | null;
  states(): WitnessState[];
};

const EVERY_MS = 2_000;
/** Of a command, at most: each is outrun by another checkpoint. */
const ROUNDS = 3;
/** The pause after a failure doubles up to this. */
const LONGEST_PAUSE_MS = 5 * 60_000;

type Options = {
  witnesses: readonly { readonly key: VerifierKey; readonly url: string }[];
  sealer: Pick<Sealer, 'key' | 'stop' | 'hold'>;
  log: Log;
  metrics: Metrics;
  every_ms?: number;
};

export function createCosigning(options: Options): Cosigning {
  const { sealer, every_ms = EVERY_MS } = options;
  const judge = () => {
    const fork = watched.map(({ state }) => state()).find((state) => state.forked);
    sealer.stop(fork ? forkReason(fork) : null);
    sealer.hold(waitsFor());
  };
  const waitsFor = () =>
    watched.map((each) => each.waitsFor()).find((wait) => wait !== null) ?? null;
  const watched = options.witnesses.map((witness) =>
    watch({ ...options, witness, every_ms, onChange: judge }),
  );
  judge();
  const states = () => watched.map(({ state }) => state());
  observe(options.metrics, states);
  return { chores: watched.map(({ chore }) => chore), states, waitsFor };
}

/**
 * For a command: each call asks every witness that has not failed before, and returns what is known then. Where another
 * process signs a newer checkpoint in between, the first call asks about that one, a few times.
 */
export function askWitnessesOnce(
  db: Db,
  witnesses: Options['witnesses'],
  sealer: Options['sealer'],
): () => Promise<WitnessState[]> {
  const log = createLog({ level: 'silent', process: 'command' });
  const metrics = createMetrics();
  const { chores, states, waitsFor } = createCosigning({ witnesses, sealer, log, metrics });
  const { signal } = new AbortController();
  return async () => {
    for (let round = 0; round === 0 || (round < ROUNDS && waitsFor() !== null); round++)
      await Promise.all(chores.map((chore) => chore.run(db, signal)));
    return states();
  };
}

const forkReason = ({ name, problem }: WitnessState) =>
  `the log has forked: the witness ${name} has another tree (${problem}); see "Witnesses" in OPERATING.md`;

function watch(
  given: Options & { witness: Options['witnesses'][number]; every_ms: number; onChange(): void },
) {
  const { witness, sealer, log, every_ms, onChange } = given;
  const { key, url } = witness;
  const name = witnessName(key);
  let state: WitnessState = { name: key.name, cosigned: null, problem: null, forked: false };
  let asked = false;
  /** An error kept this process from asking it. */
  let failed = false;
  let pause_ms = 0;
  let next_ms = 0;

  const change = (next: Partial<WitnessState>) => {
    const before = state;
    state = { ...state, ...next };
    if (state.problem !== before.problem) {
      const facts = { witness: key.name, url };
      if (state.forked)
        log.error({ ...facts, reason: state.problem }, 'a witness has another tree');
      else if (state.problem)
        log.warn({ ...facts, reason: state.problem }, 'a witness does not cosign');
      else log.info(facts, 'a witness cosigns again');
    }
    if (state.forked !== before.forked) onChange();
  };

  const round: Chore['run'] = async (db, stopping) => {
    const cosigned = (await readCosigned(db, [key])).get(name) ?? null;
    change({ cosigned });
    if (performance.now() < next_ms) return;
    if (asked && cosigned?.behind === 0 && state.problem === null) return;
    const checkpoint = (await lastCheckpoint(db)) ?? (sealer.key && emptyCheckpoint(sealer.key));
    // About the empty tree, it is asked once.
    if (!checkpoint || (asked && checkpoint.size === 0 && !state.forked)) return;
    const ask = (about: StoredCheckpoint, known: number) =>
      cosign({ db, key, url, checkpoint: about, stopping }, known);
    let outcome = await ask(checkpoint, cosigned?.size ?? 0);
    const is_renamed = sealer.key !== null && checkpoint.origin !== sealer.key.origin;
    if (is_renamed && (!asked || state.forked) && outcome.kind !== 'forked') {
      const ours = (await lastCheckpoint(db, sealer.key.origin)) ?? emptyCheckpoint(sealer.key);
      const of_our_name = await ask(ours, ours.size);
      // A witness that gives no answer now does not take its fork back.
      if (of_our_name.kind === 'forked' || (state.forked && of_our_name.kind !== 'cosigned'))
        outcome = of_our_name;
    }
    if (stopping.aborted || outcome.kind === 'outrun') return;
    if (!asked) {
      asked = true;
      onChange();
    }
    if (outcome.kind === 'cosigned') {
      pause_ms = 0;
      change({
        problem: null,
        forked: false,
        cosigned: (await readCosigned(db, [key])).get(name) ?? null,
      });
      return;
    }
    pause_ms = Math.min(Math.max(pause_ms * 2, every_ms), LONGEST_PAUSE_MS);
    next_ms = performance.now() + pause_ms;
    // That it gives no answer now takes nothing back.
    if (outcome.kind === 'failed' && state.forked) return;
    change({ problem: outcome.reason, forked: outcome.kind === 'forked' });
  };
  const run: Chore['run'] = async (db, stopping) => {
    try {
      await round(db, stopping);
      if (failed) {
        failed = false;
        onChange();
      }
    } catch (error) {
      failed = true;
      onChange();
      throw error;
    }
  };
  const chore: Chore = { name: `witness ${key.name}`, every_ms, first: 'at once', run };
  const waitsFor = (): Wait | null => {
    if (asked) return null;
    // Every customer can read it in health. So it does not say what the error was.
    const why = failed ? ": web's log says why" : '';
    return { reason: `the witness ${key.name} was not asked yet${why}`, failed };
  };
  return { chore, state: () => state, waitsFor };
}

function observe(metrics: Metrics, states: () => WitnessState[]): void {
  const gauge = (name: string, help: string, value: (state: WitnessState) => number | undefined) =>
    metrics.gauge(
      name,
      help,
      () =>
        states().flatMap((state) => {
          const one = value(state);
          return one === undefined ? [] : [[{ witness: state.name }, one] as const];
        }),
      ['witness'],
    );
  gauge(
    'runledger_witness_lag_seconds',
    'For how long there has been a checkpoint that the witness has not cosigned.',
    ({ cosigned }) => cosigned?.behind_s,
  );
  gauge(
    'runledger_witness_lag_leaves',
    'Leaves of the newest checkpoint that the witness has not cosigned.',
    ({ cosigned }) => cosigned?.behind,
  );
  gauge(
    'runledger_witness_forked',
    '1 if the witness has another tree than this log.',
    ({ forked }) => Number(forked),
  );
}
