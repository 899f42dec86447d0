/** Not a test: the process that tests kill. Starts a server on argv[2] and says so. */
import { startServer } from '../../src/local/postgres.ts';

const server = await startServer({
  data_dir: process.argv[2]!,
  password: 'secret',
  port: null,
  uid: null,
  durable: false,
  settings: {},
});
process.stdout.write(`${JSON.stringify({ pid: server.pid, port: server.port })}\n`);
// Stopped in order when asked to; until then it keeps.
process.once('SIGTERM', () => server.stop());
