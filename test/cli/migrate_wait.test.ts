/** `./runledger migrate --wait`, as a machine runs it that starts the database at the same time. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import t from 'tap';
import { emptyDatabase } from '../support/database.ts';
import { CLI, runledger } from './command_line.ts';

t.test('it waits until the database answers, and says once that it waits', async (t) => {
  const { urls } = await emptyDatabase(t);
  const address = new URL(urls.owner);
  // A port that nobody listens on yet, and then one that leads to the database.
  const door = createServer();
  door.listen(0, '127.0.0.1');
  await once(door, 'listening');
  const { port } = door.address() as { port: number };
  await new Promise((resolve) => door.close(resolve));
  const sockets: Socket[] = [];
  door.on('connection', (near) => {
    const far = connect(Number(address.port), address.hostname);
    sockets.push(near, far);
    for (const socket of [near, far]) socket.on('error', () => {});
    near.pipe(far).pipe(near);
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    door.close();
  });
  const url = new URL(urls.owner);
  url.port = String(port);
  url.hostname = '127.0.0.1';
  const env = { PATH: process.env['PATH'], DATABASE_URL: url.href };
  const child = spawn(process.execPath, [CLI, 'migrate', '--wait', 'forever'], { env });
  t.teardown(() => child.kill('SIGKILL'));
  const said: string[] = [];
  const answers: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => answers.push(line));
  const waits = new Promise<void>((resolve) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      said.push(line);
      resolve();
    });
  });
  const ended = once(child, 'close');
  await Promise.race([waits, ended]);
  t.match(said, [/^waiting for the database: .*ECONNREFUSED/]);
  door.listen(port, '127.0.0.1');
  const [status] = await ended;
  t.equal(status, 0, said.join('\n'));
  t.equal(said.length, 1);
  t.match(answers, [/^migrations applied: 000001/]);
});

t.test('without the option it does not wait, and a time is a time', async (t) => {
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
  const away = await runledger(['migrate'], env);
  t.equal(away.status, 1);
  t.notMatch(away.stderr, /waiting/);
  const wrong = await runledger(['migrate', '--wait', 'long'], env);
  t.match(wrong, { status: 2, stderr: /^--wait must be a time, such as 5min, or forever\n/ });
});
