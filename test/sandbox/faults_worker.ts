/** A worker process for tests that kill it: runs one hostile program and prints the pid of its launcher. */

import { works } from './case.ts';
import { openBench, requestFor } from './suite.ts';

const [program = '', deadline_ms = '0', mark = ''] = process.argv.slice(2);
const bench = await openBench(['cpp']);
// A new slot first copies what programs see; on a busy machine that takes longer than the deadline.
await bench.many.run(requestFor(bench, works('sleep_some'), 'endings', 'cpp').request);
bench.many.extendDeadline(Number(deadline_ms));
const { request } = requestFor(bench, works(program, { args: [mark] }), 'endings', 'cpp');
const end = bench.many.run(request).catch((error: Error) => error);
process.stdout.write(`${bench.many.isolation.pid}\n`);
await end;
await bench.close();
