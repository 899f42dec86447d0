/** Whether the log is sealed: by a key, up to date, and so that the next checkpoint can be signed. */
import type { Db } from '../../db.ts';
import type { LogKey } from '../../proof/log_key.ts';
import { CannotSeal } from '../../store/cannot_seal.ts';
import { createSealer, lastCheckpoint } from '../../store/checkpoints.ts';
import { sealingLag, unsealedText } from '../../store/service_health.ts';
import { logKey } from '../installation_keys.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

/** Web seals every ten seconds. Events that are older than this were left. */
const LATE_S = 120;

const sealing: Check = {
  name: 'sealing',
  look: async (context) => {
    const key = await logKey(context);
    const db = await context.database();
    const last = await lastCheckpoint(db);
    if (!key && !last)
      return [
        warn(
          'sealing',
          'this command has no seal key, and there is no checkpoint: nothing in the log can be proven',
          'set RUNLEDGER_SEAL_KEY for web and for the commands (OPERATING.md, "Sealing")',
        ),
      ];
    const refused = key && (await sealingRefused(db, key));
    if (refused) return [refused];
    const lag = await sealingLag(db);
    const { unsealed_s, checkpoint_age_s } = lag;
    const found = `${last ? `checkpoint ${last.number} of ${last.origin} over ${last.size} events, ${age(checkpoint_age_s)} old` : 'no checkpoint yet'}; ${unsealedText(lag)} events are not sealed${key ? '' : '; whether web can sign was not tried: this command has no RUNLEDGER_SEAL_KEY'}`;
    if (unsealed_s < LATE_S) return [ok('sealing', found)];
    return [
      warn(
        'sealing',
        `${found}, the oldest for ${age(unsealed_s)}`,
        '`/api/health` of web says why: start web with the seal key, end the transaction that has run for so long, or do what the line `witnesses` says',
      ),
    ];
  },
};

/** Null: the next checkpoint can be signed. */
export async function sealingRefused(db: Db, key: LogKey): Promise<Finding | null> {
  try {
    await createSealer(key).check(db);
    return null;
  } catch (error) {
    if (!(error instanceof CannotSeal)) throw error;
    return fail('sealing', error.message, 'OPERATING.md, "Sealing"');
  }
}

const age = (seconds: number | null) => `${Math.round(seconds ?? 0)} s`;

export const sealingChecks: readonly Check[] = [sealing];
