/** No descriptor, no memory, no thread: of this process or its machine. Nothing can be said of a program or a file then. */
const SHORTAGES = ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'ERR_WORKER_INIT_FAILED'];

export const isShortage = (error: unknown): boolean =>
  SHORTAGES.includes((error as NodeJS.ErrnoException | null)?.code ?? '');
