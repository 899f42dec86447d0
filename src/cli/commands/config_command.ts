import { ConfigError, describeConfig, loadConfig } from '../config.ts';
import { type Command, table } from './command.ts';

export const config: Command = {
  usage: '[--json]',
  summary:
    'print every variable with its value, default, unit and reason; exit 1 where one is at fault',
  async run(context) {
    const described = describeConfig(context.env);
    if (context.json) context.answer(described);
    else context.answer(table(described));
    try {
      loadConfig(context.env);
      return 0;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      for (const problem of error.problems) context.say(problem);
      return 1;
    }
  },
};
