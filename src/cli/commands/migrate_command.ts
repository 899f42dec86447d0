import { migrate } from '../../store/migrate.ts';
import { setRetention } from '../../store/retention.ts';
import { type Command, JSON_OPTION } from '../command.ts';

export const command: Command = {
  summary:
    'bring the database to this version, and store what RUNLEDGER_KEEP_BYTES and RUNLEDGER_KEEP_EVENTS say',
  options: { json: JSON_OPTION },
  example: 'migrate',
  async run(context) {
    const done = await migrate(await context.address('owner'));
    await setRetention(await context.database(), context.config);
    if (context.json) context.answer(done);
    else {
      const applied = done.applied.length > 0 ? done.applied.join(', ') : 'none';
      context.answer(`migrations applied: ${applied}; definitions: ${done.definitions}`);
    }
    return 0;
  },
};
