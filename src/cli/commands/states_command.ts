import { stateChart } from '../../store/state_chart.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary:
    "print a submission's states, what each event does, and the reasons for a lost execution",
  example: 'states',
  async run(context) {
    context.answer(await stateChart(await context.database()));
    return 0;
  },
};
