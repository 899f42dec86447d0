/** Who gives a command, for the events that it appends: the user of this machine, as user@host. */
import { hostname, userInfo } from 'node:os';

export function operatorName(): string {
  return `${userName()}@${hostname()}`;
}

/** A user id without an account has no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid-${process.getuid!()}`;
  }
}
