/**
 * Faults of the machine or of its operation: a port in use, a full disk, a database that cannot be used. A person can put each
 * right, so it is printed as one line with the remedy. A stack is only printed for what may be a mistake of this program.
 */
export class Fault extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.remedy = remedy;
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  EACCES: 'give the user that runs this the rights, or choose another folder or port',
  EPERM: 'give the user that runs this the rights, or choose another folder or port',
  ENOSPC: 'free some space on that disk',
  EDQUOT: 'free some space, or raise the quota of the user that runs this',
  EROFS: 'choose a folder that can be written (RUNLEDGER_STATE_DIR)',
  EMFILE: 'raise the limit of open files (ulimit -n)',
  ENFILE: "raise the system's limit of open files (fs.file-max)",
  EADDRNOTAVAIL: 'choose an address of this machine',
};

/** What to print of an error of the machine; null if it may be a mistake of this program. */
export function faultOf(error: unknown): { message: string; remedy: string | null } | null {
  if (error instanceof Fault) return error;
  if (!(error instanceof Error)) return null;
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string' || typeof syscall !== 'string') return null;
  return { message, remedy: REMEDIES[code] ?? null };
}

/** One line for a person: what is wrong, and what to do. */
export function faultLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const { remedy } = faultOf(error) ?? { remedy: null };
  return remedy === null ? message : `${message}: ${remedy}`;
}
