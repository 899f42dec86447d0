/**
 * Asks the witnesses of a policy how large a tree of this log they have signed. One that has signed a larger tree than the
 * database has a checkpoint of shows that the database was rolled back. The question is c2sp.org/tlog-witness's own: a
 * checkpoint that claims to extend an empty tree is answered with the size that the witness knows (409).
 */
import type { Policy } from '../proof/policy.ts';

export type Asked = {
  readonly problems: readonly string[];
  readonly unanswered: readonly string[];
};

const TIMEOUT_MS = 5000;

export async function askWitnesses(
  policy: Policy | null,
  newest: { readonly note: string; readonly size: number } | null,
): Promise<Asked> {
  const problems: string[] = [];
  const unanswered: string[] = [];
  await Promise.all(
    (policy?.witnesses ?? []).map(async ({ name, url }) => {
      if (!url || !newest) return;
      const size = await sizeKnown(url, newest.note);
      if (typeof size === 'string') unanswered.push(`witness ${name} (${url}): ${size}`);
      else if (size > newest.size)
        problems.push(
          `the log was rolled back: witness ${name} has signed a tree of ${size} events, and the newest checkpoint here covers ${newest.size}`,
        );
    }),
  );
  return { problems, unanswered };
}

/** The size of the tree that the witness knows, or why it does not say. */
async function sizeKnown(url: string, note: string): Promise<number | string> {
  try {
    const answer = await fetch(new URL('add-checkpoint', url.endsWith('/') ? url : `${url}/`), {
      method: 'POST',
      body: `old 0\n\n${note}`,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await answer.text();
    // It knew none until now.
    if (answer.status === 200) return 0;
    if (answer.status === 409 && /^\d{1,16}\s*$/.test(text)) return Number(text);
    return `it answered ${answer.status}`;
  } catch (error) {
    return `no answer (${(error as Error).message})`;
  }
}
