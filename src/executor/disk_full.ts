/** What happens when a file of a test set, or a program, does not fit on the disk of the caches. */

/** A cache that can remove what nothing uses. False: it had nothing. */
export type Room = { makeRoom(): Promise<boolean> };

export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | null)?.code ?? '');

/** In all caches of the disk, because any of them may fill it. False: nothing could be removed. */
export async function makeRoom(rooms: readonly Room[]): Promise<boolean> {
  const made = await Promise.all(rooms.map((room) => room.makeRoom()));
  return made.includes(true);
}
