import { backUp } from '../../store/backup.ts';
import { type Command, JSON_OPTION } from '../command.ts';

export const command: Command = {
  summary: 'back up the database into one file, while the service runs; the secrets are not in it',
  words: [{ name: 'FILE', help: 'the new file; it is never overwritten' }],
  options: { json: JSON_OPTION },
  example: 'backup runledger.backup',
  async run(context) {
    const [file = ''] = context.words;
    const done = await backUp(await context.database({ unpinned: true }), file);
    context.answer(
      context.json ? done : `${done.tables} tables in ${done.bytes} bytes; check it with restore`,
    );
    return 0;
  },
};
