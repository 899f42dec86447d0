import { createSigner } from '../domain/seal_chain.ts';
import type { Context } from './command.ts';

/** Signs heads with this installation's key; null without RUNLEDGER_SEAL_KEY. */
export const signerOf = ({ config }: Context) =>
  config.seal_key ? createSigner(config.seal_key) : null;
