import { ConfigError, describeConfig, doubtsOf, loadConfig } from '../../config.ts';
import { type Command, JSON_OPTION } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary:
    'print every variable with its value, default, unit and reason; exit 1 if one is invalid',
  options: { json: JSON_OPTION },
  example: 'config',
  async run(context) {
    const described = describeConfig(context.env);
    if (context.json) context.answer(described);
    else context.answer(table(described));
    try {
      for (const { found, remedy } of doubtsOf(loadConfig(context.env)))
        context.say(`${found}: ${remedy}`);
      return 0;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      for (const problem of error.problems) context.say(problem);
      return 1;
    }
  },
};
