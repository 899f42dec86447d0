/** verify as tests call it: with the policy of the key that tests seal with. */
import {
  keyText,
  LOG_KEY,
  NoteSigner,
  type VerifierKey,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { type Policy, parsePolicy } from '../../src/proof/policy.ts';
import { key } from './seal_now.ts';

export const LOG_VERIFIER: VerifierKey = key.signer.verifier;

export const witnesses = ['north', 'south'].map(
  (name, n) => new NoteSigner(name, WITNESS_KEY, Buffer.alloc(32, 40 + n)),
);

/** Both witnesses must have cosigned. */
export const policy: Policy = parsePolicy(
  [
    `log ${keyText(LOG_VERIFIER)}`,
    ...witnesses.map(({ verifier }) => `witness ${verifier.name} ${keyText(verifier)}`),
    'group both all north south',
    'quorum both',
    '',
  ].join('\n'),
);

/** The same, without witnesses. */
export const alone: Policy = parsePolicy(`log ${keyText(LOG_VERIFIER)}\nquorum none\n`);

export const strangers = new NoteSigner(LOG_VERIFIER.name, LOG_KEY, Buffer.alloc(32, 99));

/** Tests set the clock of the database: a function and a table that no release has, and times that web's clock does not know. */
export const besides = (problems: readonly string[]) =>
  problems.filter(
    (problem) =>
      !/\btest_clock\b|\bfunction clock\(\)|still to come, or none|was made at \S+, and covers an event of/.test(
        problem,
      ),
  );
