/** A sealed log and an attacker who may change anything in the database. */
import { randomBytes } from 'node:crypto';
import type { Db } from '../../src/db.ts';
import { createSigner, type HeadFile } from '../../src/domain/seal_chain.ts';
import { verify } from '../../src/store/verify.ts';
import { headFile, seal } from './old_chain.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from './world.ts';

export const signer = createSigner(Buffer.alloc(32, 7));
export const signers = [signer.name];

/** A log in two seals and some events after them, with the signed head, and an attacker's connection to it. */
export async function sealed(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  const more = async (length: number) => {
    const answers = await Promise.all(
      Array.from({ length }, (_, n) =>
        submit({
          secret_digest: digest,
          submission: submission(n % 3 ? {} : { webhook: webhook() }),
        }),
      ),
    );
    for (const id of answers.map(idOf)) {
      ids.push(id);
      await start(executions, id);
      await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    }
  };
  await more(8);
  await seal(w.db, signer);
  await more(8);
  await seal(w.db, signer);
  const head = (await headFile(w.db))!;
  await more(4);
  // A superuser, who has disabled the triggers.
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  await root.unsafe(`
    do $$ declare p record; begin
      for p in select relid::regclass as name from pg_partition_tree('runledger.events') union all select 'runledger.seals'::regclass
      loop execute format('alter table %s disable trigger all', p.name); end loop;
    end $$`);
  return { w, ids, head, root };
}

/** Seals the log from the start again, with a key of the attacker's own. */
export async function sealAnew({ w, root }: { w: World; root: Db }): Promise<void> {
  await root`delete from runledger.seals`;
  await root`delete from runledger.seal_sketch`;
  await seal(w.db, createSigner(randomBytes(32)));
}

export const check = (w: World, head: HeadFile | null) => verify(w.db, { head, signers });
/** The triggers are disabled in these tests, and verify reports that, too. */
export const about = (problems: string[]) =>
  problems.filter((problem) => !problem.includes('is not guarded'));
