import { newSecret, secretDigest } from '../../access/secret.ts';
import { durationMs } from '../../config/parsers.ts';
import { operatorName } from '../../local/operator.ts';
import { graceOf, rotateKey } from '../../store/keys.ts';
import { type Command, CommandFailed, JSON_OPTION, optionText, UsageError } from '../command.ts';
import { KEY_ID, keyId } from '../key_id.ts';

const LONGEST_GRACE_MS = 365 * 86_400_000;

export const command: Command = {
  summary:
    'give a key a new secret, printed alone; the old secret stays valid for the grace period',
  words: [KEY_ID],
  options: {
    grace: {
      value: 'TIME',
      default: '24h',
      help: 'how long the old secret stays valid: 30min, 24h, 7d; at most 365d',
    },
    again: {
      help: 'rotate even during an earlier grace period: the older secret then ends at once',
    },
    json: JSON_OPTION,
  },
  example: 'keys rotate 018f0000-0000-7000-8000-000000000000 --grace 24h',
  async run(context) {
    const id = keyId(context.words[0]!);
    const grace_ms = durationMs(optionText(context, 'grace'));
    if (grace_ms === null || grace_ms > LONGEST_GRACE_MS)
      throw new UsageError('--grace must be a time such as 30min, 24h or 7d, of at most 365d');
    const db = await context.database();
    const { ends: ends_before, version } = await graceOf(db, id);
    // A command whose answer was lost is given again, and the secret that is in use would end.
    if (ends_before !== null && !context.options['again'])
      throw new CommandFailed(
        `key ${id} has a new secret already, and the one before works until ${ends_before.toISOString()}; another rotation would end it at once: if nobody has the new one, make another key for the account, or add --again`,
      );
    const secret = newSecret(context.config.key_prefix);
    const ends = await rotateKey(db, {
      id,
      secret_digest: secretDigest(secret),
      grace_ms,
      operator: operatorName(),
      seen_version: version,
    });
    context.answer(context.json ? { id, key: secret, old_secrets_end: ends } : secret);
    context.say(
      `the secret before this one of key ${id} ends at ${ends.toISOString()}; any older one has ended now`,
    );
    return 0;
  },
};
