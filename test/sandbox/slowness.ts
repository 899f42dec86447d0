/** An emulated machine is slow, so limits and bounds of time are multiplied by this there. */
export const SLOWNESS = process.env['RUNLEDGER_GUEST'] ? 4 : 1;

/**
 * And by this, where a run must not end at a limit of time: then a generous limit costs nothing, and a busy machine needs it. A
 * guest also counts the time in which a busy host does not run it as its programs' own.
 */
export const ROOM = process.env['RUNLEDGER_GUEST'] ? 60 : 6;

/** What a compile may take while the machine is busy. What ends a hostile one are its limits of CPU time, memory and output. */
export const COMPILE_WALL_MS = 120_000;
