/** The launcher refuses what is beyond these, so nothing may ask it for more. `launcher_bounds.test.ts` compares the two. */

const MiB = 1024 * 1024;

/** MAX_SLOTS in src/sandbox/options.h. */
export const LAUNCHER_SLOTS = 64;
/** Programs at one time. The other slots are for the boxes of resident compilers. */
export const MOST_SLOTS = LAUNCHER_SLOTS - 4;

/** KEEP_BYTES_MAX in src/sandbox/wire.h: files of one run that are kept. */
export const KEEP_BYTES_MAX = 48 * MiB;
