/** The key that signs checkpoints, from the configuration. */
import type { Config } from '../config.ts';
import { createLogKey, type LogKey } from '../proof/log_key.ts';

type Given = Pick<Config, 'log_origin' | 'seal_keys_before'> & { seal_key: Uint8Array | null };

/** Null without RUNLEDGER_SEAL_KEY. */
export const logKeyOf = ({ seal_key, log_origin, seal_keys_before }: Given): LogKey | null =>
  seal_key && createLogKey(seal_key, log_origin, seal_keys_before ?? []);
