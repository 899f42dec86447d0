import { listOperators } from '../../store/operators.ts';
import { type Command, JSON_OPTION } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary: 'list who can sign in to the console, or could, and when each did last',
  options: { json: JSON_OPTION },
  example: 'operator list',
  async run(context) {
    const operators = await listOperators(await context.database());
    if (context.json) context.answer(operators);
    else context.answer(operators.length > 0 ? table(operators) : 'no operators');
    return 0;
  },
};
