/** The launcher refuses what is beyond these, so nothing may ask it for more. `launcher_bounds.test.ts` compares the two. */

const MiB = 1024 * 1024;

/** MAX_SLOTS in src/sandbox/options.h. */
export const LAUNCHER_SLOTS = 64;
/** Programs at one time. The other slots are for the boxes of resident compilers. */
export const MOST_SLOTS = LAUNCHER_SLOTS - 4;

/** KEEP_BYTES_MAX in src/sandbox/wire.h: files of one run that are kept. */
export const KEEP_BYTES_MAX = 48 * MiB;
/** What they are, besides a file that is judged instead of standard output. */
export const OUTPUTS_BYTES = 1 * MiB;
export const OUTPUTS_MOST_FILES = 64;

/** LIMIT_CEILINGS in src/sandbox/wire.c. */
export const MOST_PROCESSES = 4096;
export const MOST_FILES = 65_536;

/** FRAME_MAX in src/sandbox/wire.h: a request, with its files and its input. */
export const FRAME_MAX = 16 * MiB;
