import { operatorName } from '../../local/operator.ts';
import { reasonProblem, repair } from '../../store/repair.ts';
import { type Command, JSON_OPTION, optionText, UsageError } from '../command.ts';
import { requiredLogKey } from '../installation_keys.ts';

export const command: Command = {
  summary:
    'compute the tree from the events again, where no checkpoint can be signed any more; an event says why',
  options: {
    reason: {
      value: 'TEXT',
      required: true,
      help: 'what broke the tree, for auditors; at most 4096 bytes',
    },
    json: JSON_OPTION,
  },
  example: "repair --reason 'the disk returned old pages after the power failure'",
  async run(context) {
    const reason = optionText(context, 'reason');
    const wrong = reasonProblem(reason);
    if (wrong !== null) throw new UsageError(wrong);
    const key = await requiredLogKey(context);
    const operator = operatorName();
    const done = await repair(await context.database(), key, { reason, operator });
    const { origin, size, before } = done;
    if (context.json) context.answer(done);
    else if (before === null)
      context.say(
        `the tree of ${origin} over ${size} events has the root of the last checkpoint: sealing goes on`,
      );
    else {
      context.say(
        `${origin} begins with a checkpoint over ${size} events; the log's name was ${before.origin}`,
      );
      context.say('auditors need in their removals file:');
      context.answer(`repaired ${before.origin} ${before.size}`);
    }
    return 0;
  },
};
