/** An emulated machine is slow, so limits and bounds of time are multiplied by this there. */
export const SLOWNESS = process.env['RUNLEDGER_GUEST'] ? 4 : 1;

/**
 * And by this, where a run must not end at a limit of time: then a generous limit costs nothing. A guest
 * counts the time in which a busy host does not run it as its programs' own.
 */
export const ROOM = process.env['RUNLEDGER_GUEST'] ? 60 : 1;
