import { text } from 'node:stream/consumers';
import { listDeliveries, replayDelivery } from '../store/deliveries.ts';
import { encryptSecret } from '../webhooks/encrypt_secret.ts';
import { type Command, CommandFailed, type Context, table, UsageError } from './command.ts';

const STATUSES = ['waiting', 'delivered', 'gone', 'exhausted'];
const SHOWN = '50';
const SECRET_BYTES = 256;

export const list: Command = {
  usage: `[--status ${STATUSES.join('|')}] [--limit ${SHOWN}] [--json]`,
  summary: 'list the webhooks, the newest first, and what became of each',
  options: { status: { type: 'string' }, limit: { type: 'string', default: SHOWN } },
  async run(context) {
    const { status } = context.options;
    if (status !== undefined && !STATUSES.includes(String(status))) {
      throw new UsageError(`--status must be one of ${STATUSES.join(', ')}`);
    }
    const limit = String(context.options['limit']);
    if (!/^[1-9]\d{0,5}$/.test(limit)) throw new UsageError('--limit must be a number from 1');
    const db = await context.database();
    const asked = { status: status === undefined ? null : String(status), limit: Number(limit) };
    const rows = await listDeliveries(db, asked);
    context.answer(context.json ? rows : table(rows));
    return 0;
  },
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const replay: Command = {
  usage: 'ID [--secret-stdin]',
  summary:
    'deliver again now, with the whole schedule; one that has ended needs its secret on stdin, as the service has deleted it',
  words: [1, 1],
  options: { 'secret-stdin': { type: 'boolean' } },
  async run(context) {
    const id = context.words[0]!.toLowerCase();
    if (!UUID.test(id)) throw new UsageError(`${id} is not the id of a submission`);
    const secret = context.options['secret-stdin'] === true ? await readSecret() : null;
    const encrypted = secret === null ? null : encryptSecret(keysOf(context), id, secret);
    const replayed = await replayDelivery(await context.database(), id, encrypted);
    if (replayed !== 'replayed') throw new CommandFailed(`${id}: ${WHY[replayed]}`);
    context.say(`${id}: will be delivered now`);
    return 0;
  },
};

const WHY = {
  unknown: 'no such delivery: the submission is unknown, had no webhook, or has not ended',
  secret_needed:
    'this delivery has ended and its secret was deleted; give the secret on stdin with --secret-stdin',
  purged: 'its address was purged with what the submission sent',
};

/** On stdin, because arguments can be read by every process of the machine. */
async function readSecret(): Promise<string> {
  const secret = (await text(process.stdin)).replace(/\r?\n$/, '');
  const bytes = Buffer.byteLength(secret, 'utf8');
  if (bytes < 1 || bytes > SECRET_BYTES) {
    throw new UsageError(`the secret on stdin must have 1 to ${SECRET_BYTES} bytes, not ${bytes}`);
  }
  return secret;
}

function keysOf({ config }: Context) {
  if (config.webhook_keys === null) {
    throw new CommandFailed('RUNLEDGER_WEBHOOK_KEYS is not set: the secret cannot be encrypted');
  }
  return config.webhook_keys;
}
