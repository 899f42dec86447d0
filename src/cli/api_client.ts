/** The API of a service, for the commands that call it as a customer does. */
import { type Client, createClient } from '../client/client.ts';
import { serverProblem } from '../config/parsers.ts';
import { type Context, type Option, UsageError } from './command.ts';

export const SERVER_OPTION: Option = {
  value: 'URL',
  help: 'the service to send to, in place of RUNLEDGER_SERVER',
};

/** The key is in the environment, because every process on the machine can read arguments. */
export function clientOf({ config, options }: Context): Client {
  const server = typeof options['server'] === 'string' ? options['server'] : config.server;
  const problem = serverProblem(server);
  if (problem !== null) throw new UsageError(`--server: ${problem}, not "${server}"`);
  if (config.api_key === null) {
    throw new UsageError(
      'RUNLEDGER_API_KEY is not set: set it to the key that `serve` printed at its first start, or to one that `./runledger keys create --account NAME` prints',
    );
  }
  return createClient({ server, api_key: config.api_key });
}
