import type { Command } from './command.ts';

export const rebuild: Command = {
  usage: '[--json]',
  summary: 'build everything that is derived from the log anew, while the service runs',
  async run(context) {
    const { rebuild: rebuildAll } = await import('../store/rebuild.ts');
    const done = await rebuildAll(await context.database(), context.say);
    if (context.json) {
      context.answer(done);
      return 0;
    }
    const rate = Math.round(done.events / (done.fill_ms / 1000));
    context.answer(
      `${done.events} events (${rate}/s) into ${done.rows} rows; ${done.caught_up} submissions were caught up with, ${done.recounted} counters put right; others waited ${Math.round(done.locked_ms)} ms`,
    );
    return 0;
  },
};
