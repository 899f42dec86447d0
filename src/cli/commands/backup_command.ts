import { backUp } from '../../store/backup.ts';
import { backUpInto } from '../../store/backup_folder.ts';
import { type Command, JSON_OPTION, wholeNumber } from '../command.ts';

export const command: Command = {
  summary: 'back up the database into one file, while the service runs; the secrets are not in it',
  words: [{ name: 'FILE', help: 'the new file, which replaces none; with --keep, a folder' }],
  options: {
    keep: {
      value: 'N',
      help: 'name the file by the time, and delete all but the newest N of such files in the folder',
    },
    json: JSON_OPTION,
  },
  example: 'backup runledger.backup',
  async run(context) {
    const [word = ''] = context.words;
    const keep = context.options['keep'] === undefined ? null : wholeNumber(context, 'keep');
    const db = await context.database({ unpinned: true, any_schema: true });
    if (keep === null) {
      const done = await backUp(db, word);
      context.answer(
        context.json ? done : `${done.tables} tables in ${done.bytes} bytes; check it with restore`,
      );
      return 0;
    }
    const done = await backUpInto(db, word, { keep, now: new Date() });
    const { path, removed, ...rest } = done;
    context.answer(
      context.json
        ? done
        : `${path}: ${rest.tables} tables in ${rest.bytes} bytes; ${removed.length} older files were deleted`,
    );
    return 0;
  },
};
