/** What to do when PostgreSQL cannot be used, or rejects a call. */
import { codeOf, isAnswer, isAway } from '../db_errors.ts';
import { isNotThere } from '../store/schema_version.ts';

const LOGIN = 'check the login in DATABASE_URL, and pg_hba.conf';

const OF_CODES: Readonly<Record<string, string>> = {
  '28000': LOGIN,
  '28P01': LOGIN,
  '3D000': 'create that database, or check its name in DATABASE_URL',
  '42501': "use the owner's login (DATABASE_URL), which owns the database and all in it",
};

/** Null: nothing is known to help, or it is no error of the database. */
export function databaseRemedy(error: unknown): string | null {
  if (isAnswer(error)) {
    if (isNotThere(error)) return 'run `./runledger migrate`';
    return OF_CODES[codeOf(error)] ?? null;
  }
  return isAway(error) && isOfConnection(error as NodeJS.ErrnoException)
    ? 'check that PostgreSQL runs, and its address (DATABASE_URL)'
    : null;
}

/**
 * May the same call succeed later, with nothing changed but the database? A name that a pooler does not know, and a file, stay as
 * they are. A standby may be promoted, and a full disk may have room again.
 */
export const mayAnswerLater = (error: unknown): boolean =>
  isAway(error) &&
  isOfConnection(error as NodeJS.ErrnoException) &&
  !/^no such database\b/.test((error as Error).message);

/** Not of a file: those have the same codes. Without a free descriptor nothing can be connected, wherever PostgreSQL is. */
const isOfConnection = ({ syscall, code = '' }: NodeJS.ErrnoException): boolean =>
  !['EMFILE', 'ENFILE'].includes(code) &&
  (syscall === undefined || /^(connect|getaddrinfo|read|write)$/.test(syscall));
