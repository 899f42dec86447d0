import { operatorName } from '../../local/operator.ts';
import { revokeOperator } from '../../store/operators.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary: 'end the key of an operator and its sessions in the console, at once',
  words: [{ name: 'NAME', help: 'as `./runledger operator list` shows it' }],
  example: 'operator revoke alice',
  async run(context) {
    const name = context.words[0]!;
    await revokeOperator(await context.database(), name, operatorName());
    context.say(`operator ${name} can no longer sign in`);
    return 0;
  },
};
