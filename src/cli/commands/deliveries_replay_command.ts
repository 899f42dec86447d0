import { text } from 'node:stream/consumers';
import { ENCODED_PREFIX, isSecret, SECRET_LIMIT_BYTES } from '../../domain/webhook_secret.ts';
import { operatorName } from '../../local/operator.ts';
import { REPLAY_PROBLEMS, replayDelivery } from '../../store/deliveries.ts';
import { encryptSecret } from '../../webhooks/encrypt_secret.ts';
import { type Command, CommandFailed, type Context, isUuid, UsageError } from '../command.ts';
import { webhookKeys } from '../installation_keys.ts';

export const command: Command = {
  summary:
    'deliver a webhook again now, with its whole schedule; a delivery that has ended needs its secret, which the service has deleted',
  words: [{ name: 'ID', help: 'the id of the submission' }],
  options: { 'secret-stdin': { help: 'read the webhook secret from stdin' } },
  example: 'deliveries replay 018f0000-0000-7000-8000-000000000000',
  async run(context) {
    const id = context.words[0]!.toLowerCase();
    if (!isUuid(id)) throw new UsageError(`${id} is not the id of a submission`);
    const secret = context.options['secret-stdin'] === true ? await readSecret() : null;
    const encrypted = secret === null ? null : encryptSecret(await keysOf(context), id, secret);
    const db = await context.database();
    const replayed = await replayDelivery(db, id, encrypted, operatorName());
    if (replayed !== 'replayed') throw new CommandFailed(`${id}: ${WHY_NOT[replayed]}`);
    context.say(`${id}: will be delivered now`);
    return 0;
  },
};

const WHY_NOT = {
  ...REPLAY_PROBLEMS,
  secret_needed:
    'this delivery has ended and its secret was deleted; give the secret on stdin with --secret-stdin',
};

/** Read from stdin, because every process on the machine can read arguments. */
async function readSecret(): Promise<string> {
  const secret = (await text(process.stdin)).replace(/\r?\n$/, '');
  const bytes = Buffer.byteLength(secret, 'utf8');
  if (bytes < 1 || bytes > SECRET_LIMIT_BYTES)
    throw new UsageError(
      `the secret on stdin must have 1 to ${SECRET_LIMIT_BYTES} bytes, not ${bytes}`,
    );
  if (!isSecret(secret))
    throw new UsageError(
      `the secret on stdin begins with ${ENCODED_PREFIX}, so base64 must follow, and nothing else`,
    );
  return secret;
}

async function keysOf(context: Context) {
  const keys = await webhookKeys(context);
  if (keys) return keys;
  throw new CommandFailed('RUNLEDGER_WEBHOOK_KEYS is not set: the secret cannot be encrypted');
}
