import { rebuild } from '../../store/rebuild.ts';
import { type Command, JSON_OPTION } from '../command.ts';

export const command: Command = {
  summary: 'rebuild every derived table from the log, while the service runs',
  options: { json: JSON_OPTION },
  example: 'rebuild',
  async run(context) {
    const done = await rebuild(await context.database(), context.say);
    if (context.json) {
      context.answer(done);
      return 0;
    }
    const rate = Math.round(done.events / (done.fill_ms / 1000));
    context.answer(
      `${done.events} events (${rate}/s) into ${done.rows} rows; caught up with ${done.caught_up} submissions, corrected ${done.recounted} counters; writers waited ${Math.round(done.locked_ms)} ms`,
    );
    return 0;
  },
};
