/** A worker on its own: runs one shell script under a deadline of so many ms, and says how that ended. */
import { shell, withSandbox } from './box.ts';

const [script = 'true', deadline_ms = '0'] = process.argv.slice(2);
const { sandbox, close } = await withSandbox();
sandbox.extendDeadline(Number(deadline_ms));
console.log(sandbox.isolation.pid);
const report = await sandbox.run(shell(script)).catch((error: Error) => error);
console.log(report instanceof Error ? report.message : `exit ${report.exit_code}`);
await close();
