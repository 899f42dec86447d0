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

t.test('it does not wait for what waiting does not help', async (t) => {
  const file = await runledger(['migrate', '--wait', '5s'], {
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none?sslmode=verify-full',
    RUNLEDGER_DATABASE_CA_FILE: '/none.pem',
  });
  t.match(file, { status: 1, stderr: /none\.pem/ });
  t.notMatch(file.stderr, /waiting/);
  for (const [code, message] of [
    // As PgBouncer says it.
    ['08P01', 'no such database: none'],
  ] as const) {
    const answers = await refusing(t, code, message);
    const found = await runledger(['migrate', '--wait', '5s'], answers);
    t.equal(found.status, 1);
    t.match(found.stderr, message);
    t.notMatch(found.stderr, /waiting/, code);
  }
  for (const [code, message] of [
    ['08P01', 'pgbouncer cannot connect to server'],
    ['25006', 'cannot execute CREATE TABLE in a read-only transaction'],
    ['53100', 'could not extend file: No space left on device'],
  ] as const) {
    const later = await refusing(t, code, message);
    const child = spawn(process.execPath, [CLI, 'migrate', '--wait', 'forever'], {
      env: { PATH: process.env['PATH'], ...later },
    });
    t.teardown(() => child.kill('SIGKILL'));
    const first = await Promise.race([
      once(createInterface({ input: child.stderr }), 'line').then(([line]) => String(line)),
      once(child, 'close').then(() => 'it ended'),
    ]);
    t.match(first, /^waiting for the database: /);
    t.match(first, message);
    child.kill('SIGKILL');
  }
});

/** The environment of a command whose database refuses each connection with this error. */
async function refusing(t: { teardown(work: () => unknown): void }, code: string, text: string) {
  const fields = `SFATAL\0VFATAL\0C${code}\0M${text}\0\0`;
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.concat([head, Buffer.from(fields)])));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  return { DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none?sslmode=disable` };
}
