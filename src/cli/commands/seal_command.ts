import { headFile, seal } from '../../store/seals.ts';
import { type Command, CommandFailed } from '../command.ts';
import { signerOf } from '../signing.ts';

export const command: Command = {
  summary:
    'seal the log now and print the signed head; keep it where the database administrator cannot write',
  example: 'seal > head.json',
  async run(context) {
    const db = await context.database();
    const signer = signerOf(context);
    if (!signer) context.say('RUNLEDGER_SEAL_KEY is not set: the head is not signed');
    await seal(db, signer);
    const head = await headFile(db);
    if (!head) throw new CommandFailed('the log is empty: there is nothing to seal yet');
    context.answer(head);
    return 0;
  },
};
