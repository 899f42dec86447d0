/** A witness as a process that a test kills: its folder, and the file with the keys of its logs. Prints its address. */
import { readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { parseKey } from '../../src/proof/note.ts';
import { WitnessFolder } from '../../src/witness/witness_folder.ts';
import { startWitness } from '../../src/witness/witness_server.ts';

const [dir = '', file = ''] = process.argv.slice(2);
const logs = file === 'none' ? [] : readFileSync(file, 'utf8').trim().split('\n').map(parseKey);
const folder = await WitnessFolder.open(dir, 'witness.test');
const log = createLog({ level: 'fatal', process: 'witness', to: 'stderr' });
const where = { host: '127.0.0.1', port: 0 };
const witness = await startWitness({ folder, logs, ...where, log, metrics: createMetrics() });
process.stdout.write(`${witness.address}\n`);
// For the next start: a process that is killed writes nothing at its end.
flushCompileCache();
