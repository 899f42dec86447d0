/**
 * Sessions that the database knows, for a moment: a page that is polled does not ask the database each time. The database decides
 * again for everything that belongs to an account (sql/functions/operators.sql), so this only says what a page shows at its head, and
 * who may see how the service is.
 */
import type { Sessions } from '../../store/operators.ts';

/** A notification of the database clears everything at once; without it, as where a connection is lost, this time does. */
const KEPT_MS = 10_000;
const SESSIONS_MAX = 1_000;

type Kept<T> = { readonly value: Promise<T>; readonly until_ms: number };

export type KnownSessions = {
  anyOperator(): Promise<boolean>;
  nameOf(session: Uint8Array): Promise<string | null>;
  /** Operators were changed, or one signed out. */
  forget(): void;
};

export function createKnownSessions(
  sessions: Pick<Sessions, 'anyOperator' | 'nameOf'>,
  now_ms: () => number = () => performance.now(),
): KnownSessions {
  const kept = new Map<string, Kept<unknown>>();
  /** What has no answer yet, and sessions that are none: a stranger can make up any number, which must push out no operator's. */
  const unknown = new Map<string, Kept<unknown>>();
  function remember<T>(name: string, ask: () => Promise<T>): Promise<T> {
    const known = (kept.get(name) ?? unknown.get(name)) as Kept<T> | undefined;
    if (known !== undefined && known.until_ms > now_ms()) return known.value;
    kept.delete(name);
    const asked = { value: ask(), until_ms: now_ms() + KEPT_MS };
    put(unknown, name, asked);
    asked.value.then(
      (value) => {
        // Not if all was forgotten since.
        if (value === null || unknown.get(name) !== asked) return;
        unknown.delete(name);
        put(kept, name, asked);
      },
      // A failure is nobody's answer.
      () => unknown.get(name) === asked && unknown.delete(name),
    );
    return asked.value;
  }
  return {
    anyOperator: () => remember('', () => sessions.anyOperator()),
    nameOf: (session) =>
      remember(Buffer.from(session).toString('latin1'), () => sessions.nameOf(session)),
    forget: () => {
      kept.clear();
      unknown.clear();
    },
  };
}

function put(all: Map<string, Kept<unknown>>, name: string, one: Kept<unknown>): void {
  all.delete(name);
  if (all.size >= SESSIONS_MAX) all.delete(all.keys().next().value!);
  all.set(name, one);
}
