/** A rule of the public contract: where it is written, what it says in our words, and how it is seen to hold. */
import type { Stage } from './stage.ts';

export type Rule = {
  /** seed: the API's own document; contract: what settles its open values */
  from: 'seed' | 'contract';
  /** the chapter */
  about: string;
  says: string;
  /** Throws where the rule does not hold; NotRun where this machine cannot tell. */
  see: (stage: Stage) => Promise<unknown>;
};

export class NotRun extends Error {}

export function chapter(about: string) {
  return {
    seed: (says: string, see: Rule['see']): Rule => ({ from: 'seed', about, says, see }),
    contract: (says: string, see: Rule['see']): Rule => ({ from: 'contract', about, says, see }),
  };
}
