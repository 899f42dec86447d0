import type { Command } from './command.ts';

export const states: Command = {
  usage: '',
  summary:
    'print the states of a submission, what each event does, and the reasons for a lost execution',
  async run(context) {
    const { stateChart } = await import('../store/state_chart.ts');
    context.answer(await stateChart(await context.database()));
    return 0;
  },
};
