/** The keys of this installation, where the service has them: the environment, else the file that `serve` made. */
import { resolve } from 'node:path';
import { parse } from 'valibot';
import { namedKeys, secret } from '../config/parsers.ts';
import { logKeyOf } from '../config/seal_key.ts';
import { createSigner } from '../domain/seal_chain.ts';
import { readLocalSecrets } from '../local/secrets.ts';
import type { LogKey } from '../proof/log_key.ts';
import { CommandFailed, type Context } from './command.ts';

/** Signs checkpoints; null if there is no key. */
export const logKey = async (context: Context): Promise<LogKey | null> =>
  logKeyOf({ ...context.config, seal_key: await sealKey(context) });

export async function requiredLogKey(context: Context): Promise<LogKey> {
  const key = await logKey(context);
  if (key) return key;
  throw new CommandFailed(
    `this command has no seal key: RUNLEDGER_SEAL_KEY is not set, and ${context.config.state_dir} has no secrets.json; give it the key that web has`,
  );
}

/** Signs heads of the old chain; null if there is no key. */
export async function oldSigner(context: Context) {
  const key = await sealKey(context);
  return key && createSigner(key);
}

/** Encrypt webhook secrets; null if there are none. */
export async function webhookKeys({ config }: Context) {
  if (config.webhook_keys) return config.webhook_keys;
  const stored = await readLocalSecrets(resolve(config.state_dir));
  return stored && parse(namedKeys, stored.RUNLEDGER_WEBHOOK_KEYS);
}

async function sealKey({ config }: Context): Promise<Uint8Array | null> {
  if (config.seal_key) return config.seal_key;
  const stored = await readLocalSecrets(resolve(config.state_dir));
  return stored && parse(secret, stored.RUNLEDGER_SEAL_KEY);
}
