/** Sealing as a web process does it that starts now, and what its tests need. */
import type { Db } from '../../src/db.ts';
import { ENTRY_COLUMNS } from '../../src/proof/entry.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import { leafHash } from '../../src/proof/merkle.ts';
import { GrowingTree } from '../../src/proof/tiles.ts';
import { createSealer, type Sealed } from '../../src/store/checkpoints.ts';
import { readEntries } from '../../src/store/entries.ts';
import { othersEnded } from '../support/others_ended.ts';

export const key = createLogKey(Buffer.alloc(32, 7));

/** Tests set the clock of the database to times that are still to come. */
export const NEVER_LATE = 8e15;

export async function seal(db: Db, own = key): Promise<Sealed[]> {
  await othersEnded(db);
  return createSealer(own, () => NEVER_LATE).seal(db);
}

/** Events are appended as accounts: one transaction each, with `events` of them. */
export async function append(db: Db, count: number, events = 1): Promise<void> {
  for (let n = 0; n < count; n++)
    await db`
      insert into runledger.events (stream, version, type, at, generation, facts)
      select runledger.permanent_id(), 1, 'account.created', now(), 1, jsonb_build_object('name', n || ' ü')
      from generate_series(1, ${events}::integer) n`;
}

/** The root over the log's first events, computed from them alone. */
export async function rootOf(db: Db, size: number): Promise<Buffer> {
  const tree = new GrowingTree(0, []);
  const query = `select ${ENTRY_COLUMNS} from runledger.events order by generation, xid, seq limit ${size}`;
  for await (const entries of readEntries(db, query))
    for (const entry of entries) tree.append(leafHash(entry));
  return tree.root();
}
