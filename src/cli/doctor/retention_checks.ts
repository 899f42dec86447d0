/** Whether old data is removed as the environment says, and why not. */
import { type RetentionFacts, retentionFacts } from '../../store/retention.ts';
import type { Context } from '../command.ts';
import { retentionText } from '../retention_text.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

const retention: Check = {
  name: 'retention',
  look: async (context) => {
    const facts = await retentionFacts(await context.database());
    const [different, state] = [differences(context, facts), stateOf(facts)];
    return different.length > 0 && state.state === 'ok' ? different : [...different, state];
  },
};

export const retentionChecks: readonly Check[] = [retention];

function stateOf(facts: RetentionFacts): Finding {
  const found = retentionText(facts);
  if (!facts.scheduled || facts.problem === null) return ok('retention', found);
  return fail('retention', `${found}: ${facts.problem}`, 'OPERATING.md, "Retention"');
}

/** The database has what the last `migrate` found in its environment. */
function differences({ config }: Context, facts: RetentionFacts): Finding[] {
  const { keep_bytes_ms, keep_events_ms } = config;
  const same = (ms: number | null, s: number | null) => ms === (s === null ? null : s * 1000);
  if (same(keep_bytes_ms, facts.keep_bytes_s) && same(keep_events_ms, facts.keep_events_s))
    return [];
  return [
    warn(
      'retention',
      'RUNLEDGER_KEEP_BYTES or RUNLEDGER_KEEP_EVENTS is not what the database has',
      'run ./runledger migrate with the values that you want',
    ),
  ];
}
