import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLog } from '../../log.ts';
import { createMetrics } from '../../metrics.ts';
import { stopRequested } from '../../processes/stop_request.ts';
import { BadNote, keyText, LOG_KEY, parseKey, type VerifierKey } from '../../proof/note.ts';
import { BadWitnessFolder, WitnessFolder } from '../../witness/witness_folder.ts';
import { startWitness } from '../../witness/witness_server.ts';
import { type Command, CommandFailed, optionText, UsageError } from '../command.ts';

export const command: Command = {
  summary:
    'start a witness, which cosigns the checkpoints of logs and never two that disagree; prints its line for a policy',
  options: {
    name: {
      value: 'NAME',
      help: 'the name of its key, such as witness.example.org; for the first start',
    },
    logs: {
      value: 'FILE',
      help: 'the logs that it watches: the `log` lines of a policy file, or of several',
    },
    dir: {
      value: 'DIR',
      help: 'its key and what it cosigned; default: witness in the state directory',
    },
    listen: { value: 'HOST:PORT', default: '127.0.0.1:8090', help: 'where logs reach it' },
    key: { help: 'make the key if there is none, print the line for a policy, and exit' },
  },
  example: 'witness --name witness.example.org --logs policy.txt',
  async run(context) {
    const { options, config } = context;
    const name = typeof options['name'] === 'string' ? options['name'] : null;
    const path =
      typeof options['dir'] === 'string' ? options['dir'] : join(config.state_dir, 'witness');
    const folder = await WitnessFolder.open(path, name).catch(asFailure);
    const { verifier } = folder.signer;
    context.answer(`witness ${verifier.name} ${keyText(verifier)}`);
    try {
      if (options['key']) return 0;
      const logs = await readLogs(optionText(context, 'logs'));
      const log = createLog({ level: config.log_level, process: 'witness', to: 'stderr' });
      const stopped = stopRequested();
      const metrics = createMetrics();
      const listen = listenAddress(optionText(context, 'listen'));
      const witness = await startWitness({ folder, logs, ...listen, log, metrics });
      const origins = [...new Set(logs.map((key) => key.name))];
      log.info({ address: witness.address, origins, folder: path }, 'started');
      log.info({ reason: await stopped }, 'stopping');
      await witness.close();
      return 0;
    } finally {
      folder.close();
    }
  },
};

/** The `log` lines of one policy file or of several, one after the other. Their other lines are ignored. */
async function readLogs(path: string): Promise<VerifierKey[]> {
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new UsageError(`--logs: ${error.message}`);
  });
  const words = text.split('\n').map((line) => line.trim().split(/[ \t]+/));
  const logs = words.filter(([kind]) => kind === 'log').map(([, key = '']) => logKey(key));
  if (logs.length === 0)
    throw new UsageError(
      `--logs: ${path} has no line \`log NAME+ID+KEY\` (\`./runledger policy\`)`,
    );
  return logs;
}

function logKey(text: string): VerifierKey {
  try {
    const key = parseKey(text);
    if (key.type === LOG_KEY) return key;
    throw new UsageError(`--logs: ${text} is not the key of a log`);
  } catch (error) {
    if (error instanceof BadNote) throw new UsageError(`--logs: ${error.message}`);
    throw error;
  }
}

function listenAddress(listen: string): { host: string; port: number } {
  const [, host, port] = /^(.+):([0-9]{1,5})$/.exec(listen) ?? [];
  if (!host || Number(port) > 65_535)
    throw new UsageError(`--listen: '${listen}' is not HOST:PORT, such as 127.0.0.1:8090`);
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

function asFailure(error: unknown): never {
  throw error instanceof BadWitnessFolder ? new CommandFailed(error.message) : error;
}
