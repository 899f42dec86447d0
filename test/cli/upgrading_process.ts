/**
 * Not a test: an upgrade of the data in argv[2] that ends itself by SIGKILL at the moment in argv[3]: `out 10` or `in 10`, when
 * that many tables were begun, or a line that begins so.
 */
import { upgradeDatabase } from '../../src/processes/upgrade_database.ts';
import { key } from '../store/seal_now.ts';

const [state_dir = '', moment = ''] = process.argv.slice(2);
const at = (now: string) => {
  if (now.startsWith(moment)) process.kill(process.pid, 'SIGKILL');
};

await upgradeDatabase({
  embedded: { state_dir, postgres_uid: null },
  key,
  old_programs: null,
  say: at,
  progress: (direction, tables) => at(`${direction} ${tables}`),
});
