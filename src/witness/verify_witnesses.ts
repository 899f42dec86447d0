/**
 * Asks the witnesses of a policy how large a tree of this log they have signed. One that has signed a larger tree than the
 * database has a checkpoint of shows that the database was rolled back. The question is c2sp.org/tlog-witness's own: a
 * checkpoint that claims to extend an empty tree is answered with the size that the witness knows (409).
 */
import { additionText, parseSize, WITNESS_STATUS } from '../proof/addition.ts';
import type { Policy } from '../proof/policy.ts';
import { askWitness, NoAnswer } from './ask_witness.ts';

export type Asked = {
  readonly problems: readonly string[];
  readonly unanswered: readonly string[];
};

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
    const { signal } = new AbortController();
    const answer = await askWitness(url.replace(/\/$/, ''), additionText(0, [], note), signal);
    // It knew none until now.
    if (answer.status === WITNESS_STATUS.cosigned) return 0;
    const size = answer.status === WITNESS_STATUS.other_size ? parseSize(answer.body) : null;
    return size ?? `it answered ${answer.status}`;
  } catch (error) {
    if (error instanceof NoAnswer) return `no answer (${error.message})`;
    throw error;
  }
}
