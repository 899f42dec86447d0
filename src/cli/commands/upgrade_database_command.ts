import { bytesText } from '../../domain/units_text.ts';
import { upgradeDatabase } from '../../processes/upgrade_database.ts';
import { type Command, CommandFailed, JSON_OPTION } from '../command.ts';
import { logKey } from '../installation_keys.ts';

/** Between two lines about the rows that were copied. */
const PROGRESS_MS = 5_000;

export const command: Command = {
  summary:
    'bring the data of the embedded PostgreSQL to the major version of its programs; the old data are kept',
  options: {
    'old-programs': {
      value: 'DIR',
      help: 'a folder whose bin has the programs of the old version; without it, those of Debian or of npm are used',
    },
    json: JSON_OPTION,
  },
  example: 'upgrade-database',
  async run(context) {
    const { config } = context;
    if (config.database_url)
      throw new CommandFailed(
        'DATABASE_URL names a server of your own: make a new one, and move the data by backup and restore',
      );
    const began = performance.now();
    const say = (line: string) =>
      context.say(`[${((performance.now() - began) / 1000).toFixed(1)} s] ${line}`);
    let said = began;
    const named = context.options['old-programs'];
    const { major, data, kept } = await upgradeDatabase({
      embedded: config,
      key: await logKey(context),
      old_programs: typeof named === 'string' ? named : null,
      say,
      progress: (direction, tables, bytes) => {
        if (performance.now() - said < PROGRESS_MS) return;
        said = performance.now();
        say(`copying ${direction}: ${tables} tables, ${bytesText(bytes)} so far`);
      },
    });
    if (context.json) context.answer({ major, data, kept });
    else if (kept === null)
      context.answer(`${data} has data of PostgreSQL ${major} already: nothing to do`);
    else
      context.answer(
        `${data} has data of PostgreSQL ${major} now; the old data are in ${kept}: remove them when you no longer need them`,
      );
    return 0;
  },
};
