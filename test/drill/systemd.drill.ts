/** The units in a machine that systemd has booted, by the commands of DEPLOYING.md. */
import { join } from 'node:path';
import { install } from './debian_root.ts';
import { type Drill, NotRun } from './drill.ts';
import { inGuest } from './guest.ts';

export const drill: Drill = {
  shows:
    'systemd starts migrate, web and a worker that isolates, as a user and as root; upgrades and restarts them',
  async run(stage) {
    if (process.getuid!() !== 0) throw new NotRun('only root can start a guest machine');
    await install(stage, 'uidmap', 'newuidmap');
    await inGuest(stage, ['--as', 'service'], [join(import.meta.dirname, 'in_guest/units.ts')]);
  },
};
