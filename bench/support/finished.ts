/** Submissions that have ended, without a run: what a worker would have reported is given. */
import { randomBytes } from 'node:crypto';
import { secretDigest } from '../../src/access/secret.ts';
import type { Db } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { encryptSecret } from '../../src/webhooks/encrypt_secret.ts';
import { WEBHOOK_KEY } from '../../test/http/support/web_process.ts';
import { outcome as given, submission } from '../../test/queue/given.ts';

export const CAPACITY = 10_000_000;

export type Finisher = {
  submissions: ReturnType<typeof createSubmissions>;
  executions: ReturnType<typeof createExecutions>;
};

/** `consumer`: a worker that is alive. */
export function finisher(db: Db, consumer: string): Finisher {
  return {
    submissions: createSubmissions(db, { queue_capacity: CAPACITY }),
    executions: createExecutions(db, db, consumer),
  };
}

/** Resolves to the id of a submission of the key that has ended with these facts. */
export async function ended(
  { submissions, executions }: Finisher,
  key: string,
  facts: object,
  webhook_url?: string,
): Promise<string> {
  const id = uuidv7(Date.now(), randomBytes(10));
  const [name, bytes] = WEBHOOK_KEY.split(':') as [string, string];
  const keys = [{ id: name, bytes: Buffer.from(bytes, 'base64') }];
  const webhook = webhook_url
    ? { url: webhook_url, encrypted_secret: encryptSecret(keys, id, 'a secret') }
    : null;
  await submissions.submit({
    secret_digest: secretDigest(key),
    submission: submission(id, { webhook }),
  });
  const started = await executions.start({ submission_id: id, job_id: '0', priority: 0 });
  const { attempt } = started!.order;
  await executions.complete({ submission_id: id, attempt, outcome: { ...given, ...facts } });
  return id;
}
