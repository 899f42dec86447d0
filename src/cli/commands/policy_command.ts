import { existsSync } from 'node:fs';
import { dataDir } from '../../local/embedded.ts';
import { type LogKey, verifierKeys } from '../../proof/log_key.ts';
import { policyFor, policyText } from '../../proof/policy.ts';
import { CannotSeal } from '../../store/cannot_seal.ts';
import { checkOurs, lastCheckpoint } from '../../store/checkpoints.ts';
import { type Command, CommandFailed, type Context } from '../command.ts';
import { requiredLogKey } from '../installation_keys.ts';

export const command: Command = {
  summary:
    'print the policy by which an auditor verifies this log: its keys, and the witnesses that must cosign; keep it where the database administrator cannot write',
  example: 'policy > policy.txt',
  async run(context) {
    const key = await requiredLogKey(context);
    await checkAgainstLog(context, key);
    const policy = policyFor(verifierKeys(key), context.config.witnesses ?? []);
    context.answer(policyText(policy).trimEnd());
    return 0;
  },
};

/** Without the environment of web, the policy would name another log, or other keys. */
async function checkAgainstLog(context: Context, key: LogKey): Promise<void> {
  try {
    const last = await newestCheckpoint(context);
    if (last) checkOurs(last, key);
  } catch (error) {
    if (error instanceof CannotSeal)
      throw new CommandFailed(
        `${error.message}: run this with the RUNLEDGER_SEAL_KEY, RUNLEDGER_LOG_ORIGIN and RUNLEDGER_SEAL_KEYS_BEFORE of web`,
      );
    const [reason] = (error as Error).message.split('\n');
    context.say(`the policy could not be compared with the log: ${reason}`);
  }
}

/** Null also if there is no database yet: this command makes none. */
async function newestCheckpoint(context: Context) {
  if (!context.config.database_url && !existsSync(dataDir(context.config))) return null;
  return lastCheckpoint(await context.database({ any_schema: true }));
}
