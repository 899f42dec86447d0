/** Asks each witness, as web does: whether it cosigns the newest checkpoint, and whether it has another tree. */
import { askWitnessesOnce } from '../../queue/cosigning.ts';
import type { WitnessState } from '../../store/cosignatures.ts';
import { logKey } from '../installation_keys.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

export const witnesses: Check = {
  name: 'witnesses',
  look: async (context) => {
    const { witnesses } = context.config;
    if (!witnesses) return [ok('witnesses', 'none: nobody else saw how the log grew')];
    const ask = askWitnessesOnce(await context.database(), witnesses, {
      key: await logKey(context).catch(() => null),
      stop: () => {},
      hold: () => {},
    });
    return (await ask()).map(findingOf);
  },
};

function findingOf({ name, cosigned, problem, forked }: WitnessState): Finding {
  const state = cosigned
    ? `${name} has cosigned ${cosigned.size} events, ${cosigned.behind} events and ${Math.round(cosigned.behind_s)} s behind the newest checkpoint`
    : `${name}: there is no checkpoint yet`;
  if (!problem) return ok('witnesses', state);
  const remedy = 'see "Witnesses" in OPERATING.md';
  return (forked ? fail : warn)('witnesses', `${state}: ${problem}`, remedy);
}
