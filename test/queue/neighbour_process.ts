/** A process of the queue, as its neighbours see it. SIGUSR1: it starts a child that inherits its socket. */
import { spawn } from 'node:child_process';
import { createLog } from '../../src/log.ts';
import { openNeighbours } from '../../src/queue/neighbours.ts';

const { name, descriptor } = await openNeighbours(
  createLog({ level: 'silent', process: 'test', to: 'stderr' }),
);
process.on('SIGUSR1', () => {
  const child = spawn('sleep', ['600'], { stdio: ['ignore', 'ignore', 'ignore', descriptor] });
  process.stdout.write(`${child.pid}`);
});
setInterval(() => {}, 60_000);
process.stdout.write(name);
