import { setTimeout as wait } from 'node:timers/promises';
import { ApiError } from '../../client/client.ts';
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import { type Command, CommandFailed, isUuid, UsageError } from '../command.ts';
import { callText } from '../follow_submission.ts';

const PAUSE_MS = 2_000;
/** Far longer than the log takes to be sealed, so that it says something if the log is not sealed within it. */
const PATIENCE_MS = 120_000;

export const command: Command = {
  summary:
    'print the receipt of a submission that has ended: the proof that the log has it; waits until the log is sealed',
  words: [{ name: 'ID', help: 'the id of the submission' }],
  options: { server: SERVER_OPTION },
  example: 'receipt 018f0000-0000-7000-8000-000000000000 > receipt.json',
  async run(context) {
    const id = context.words[0]!.toLowerCase();
    if (!isUuid(id)) throw new UsageError(`${id} is not the id of a submission`);
    const client = clientOf(context);
    for (let waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += PAUSE_MS) {
      const receipt = await client.receipt(id).catch((error: unknown) => {
        throw new CommandFailed(`${id}: ${isUnknown(error) ? UNKNOWN : callText(error)}`);
      });
      if (receipt !== null) {
        context.answer(receipt);
        return 0;
      }
      if (waited_ms === 0) context.say('it has not ended, or is not sealed yet: waiting');
      await wait(PAUSE_MS);
    }
    throw new CommandFailed(`${id}: it has not ended, or is not sealed yet; ask again later`);
  },
};

const UNKNOWN = 'the account of this key has no submission of this id';
const isUnknown = (error: unknown) => error instanceof ApiError && error.error === 'not_found';
