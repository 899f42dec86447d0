import { operatorName } from '../../local/operator.ts';
import { askWitnessesOnce } from '../../queue/cosigning.ts';
import { createSealer } from '../../store/checkpoints.ts';
import { detachMonth, whyNotDetach } from '../../store/retention.ts';
import { type Command, CommandFailed, JSON_OPTION, UsageError } from '../command.ts';
import { logKey } from '../installation_keys.ts';

export const command: Command = {
  summary:
    'take a month out of the log once everything in it has ended; its tables move to the schema runledger_detached',
  words: [{ name: 'YYYY-MM', help: 'the month' }],
  options: { json: JSON_OPTION },
  example: 'detach 2026-01',
  async run(context) {
    const [word] = context.words;
    if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(word!)) throw new UsageError(`not a month: ${word}`);
    const month = word!.replace('-', '_');
    const db = await context.database();
    const key = await logKey(context);
    if (key) {
      const sealer = createSealer(key);
      // Nothing is signed if one has another tree.
      await askWitnessesOnce(db, context.config.witnesses ?? [], sealer)();
      await sealer.seal(db);
    }
    const reason = await whyNotDetach(db, month);
    if (reason) throw new CommandFailed(`${word} cannot be detached: ${reason}`);
    const events = await detachMonth(db, month, operatorName(), context.say);
    if (context.json) context.answer({ month: word, events });
    else
      context.answer(
        `${events} events of ${word} are in the schema runledger_detached: dump it, then drop it`,
      );
    return 0;
  },
};
