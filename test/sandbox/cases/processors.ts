/**
 * Programs that try to get more of the processors than an equal share. What counts is the CPU time that they got: a busy
 * machine can only lower it.
 */
import { availableParallelism } from 'node:os';
import { type Case, CPP, ends, type Seen, works } from '../case.ts';
import { SLOWNESS } from '../slowness.ts';

/** The suite's sandboxes have at most this many slots, so each slot has at least this part of the processors. */
const SLOTS = 2;
const PART = Math.max(1, availableParallelism() / SLOTS);
/** The quota is a little more than the part, and a burst comes on top. Without a quota it would be all processors. */
const MOST = 1.25 * PART;
const BURST_US = 500_000 * SLOWNESS;
// On a busy machine, the memory of processes that have ended is given back late.
const LIMITS = { cpu_ms: 60_000, wall_ms: 3_000, memory_bytes: 2 ** 30 };

function gotItsPart({ report }: Seen): string | null {
  const most = MOST * report.wall_us + BURST_US;
  return report.cpu_us <= most ? null : `used ${report.cpu_us} µs of CPU in ${report.wall_us} µs`;
}

const WAYS: readonly [name: string, program: string, how: string][] = [
  ['processes that wake each other', 'processors_relayed', 'waking each other'],
  ['processes that move each other', 'processors_moved', 'moving each other'],
  ['processes that come and go', 'processors_stormed', 'starting and ending'],
  ['sessions', 'processors_in_sessions', 'sessions of their own'],
];

export const processors: readonly Case[] = WAYS.map(([name, program, how]) => ({
  name,
  topic: 'sharing',
  needs_box: true,
  needs_quota: true,
  claim: `processes cannot get more of the processors by ${how}`,
  because: 'the slot’s group has a quota',
  languages: CPP,
  hostile: ends(program, 'TLE', { limits: LIMITS, killed_for: 'wall', evidence: gotItsPart }),
  honest: works('processors_in_turn'),
}));
