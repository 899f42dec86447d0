import { migrate as migrateDatabase } from '../store/migrate.ts';
import type { Command } from './command.ts';

export const migrate: Command = {
  usage: '[--json]',
  summary: 'bring the database to this version; does nothing when it is there already',
  async run(context) {
    const done = await migrateDatabase(await context.address('owner'));
    if (context.json) context.answer(done);
    else {
      const applied = done.applied.length > 0 ? done.applied.join(', ') : 'none';
      context.answer(`migrations applied: ${applied}; definitions: ${done.definitions}`);
    }
    return 0;
  },
};
