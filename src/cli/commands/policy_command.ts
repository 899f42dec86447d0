import { verifierKeys } from '../../proof/log_key.ts';
import { policyFor, policyText } from '../../proof/policy.ts';
import type { Command } from '../command.ts';
import { requiredLogKey } from '../signing.ts';

export const command: Command = {
  summary:
    'print the policy by which an auditor verifies this log: its keys, and the witnesses that must cosign; keep it where the database administrator cannot write',
  example: 'policy > policy.txt',
  async run(context) {
    const key = await requiredLogKey(context);
    context.answer(policyText(policyFor(verifierKeys(key), [])).trimEnd());
    return 0;
  },
};
