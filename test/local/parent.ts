/** Not a test: the process that tests kill. It starts a server on the data in argv[2] and prints its pid and port. */
import { startServer } from '../../src/local/postgres.ts';

const server = await startServer({
  data_dir: process.argv[2]!,
  password: 'secret',
  port: null,
  uid: null,
  durable: false,
  settings: {},
});
// Stops in order on SIGTERM; until then it runs. The reader of the line may send the signal at once.
process.once('SIGTERM', () => server.stop());
process.stdout.write(`${JSON.stringify({ pid: server.pid, port: server.port })}\n`);
