import { endRestore } from '../../local/embedded.ts';
import { requireBackup, restore } from '../../store/backup.ts';
import { type Command, JSON_OPTION } from '../command.ts';

export const command: Command = {
  summary: 'restore a backup into an empty database: that of DATABASE_URL, or a new embedded one',
  words: [{ name: 'FILE', help: 'what `./runledger backup` has written' }],
  options: { json: JSON_OPTION },
  creates: 'always',
  example: 'restore runledger.backup',
  async run(context) {
    const [file = ''] = context.words;
    // Before a database is made: a file that is no backup must not leave an empty one.
    await requireBackup(file);
    const { config } = context;
    const done = await restore(await context.address(), file, {
      loaded: async () => {
        if (!config.database_url) await endRestore(config);
      },
    });
    if (done.applied.length > 0)
      context.say(
        `the backup is of an older version; migrations applied: ${done.applied.join(', ')}`,
      );
    context.answer(
      context.json
        ? done
        : `${done.tables} tables of ${done.made_at}; prove them with \`./runledger verify --offline --policy FILE\``,
    );
    return 0;
  },
};
