/** A worker on its own: runs one shell script under a deadline of so many ms, and says how that ended. */
import { createLog } from '../../src/log.ts';
import { openNeighbours } from '../../src/queue/neighbours.ts';
import { shell, withSandbox } from './box.ts';

const [script = 'true', deadline_ms = '0'] = process.argv.slice(2);
const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
const neighbours = await openNeighbours(log);
const { sandbox, close } = await withSandbox({ inherited: neighbours.descriptor });
// The first run of a slot prepares it, which may take longer than the deadline on a busy machine.
await sandbox.run(shell('true'));
sandbox.extendDeadline(Number(deadline_ms));
console.log(`${sandbox.isolation.pid} ${neighbours.name}`);
const report = await sandbox
  .run(shell(script, { limits: { wall_ms: 300_000 } }))
  .catch((error: Error) => error);
console.log(report instanceof Error ? report.message : `exit ${report.exit_code}`);
await close();
