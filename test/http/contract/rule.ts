/** A rule of the public contract: its source, its text, and the check that it holds. */
import type { Stage } from './stage.ts';

export type Rule = {
  /** seed: the document of the API; contract: the page that settles the values which the document leaves open */
  from: 'seed' | 'contract';
  /** the chapter */
  about: string;
  says: string;
  /** Throws where the rule does not hold; throws NotRun where this machine cannot check it. */
  see: (stage: Stage) => Promise<unknown>;
};

export function chapter(about: string) {
  return {
    seed: (says: string, see: Rule['see']): Rule => ({ from: 'seed', about, says, see }),
    contract: (says: string, see: Rule['see']): Rule => ({ from: 'contract', about, says, see }),
  };
}
