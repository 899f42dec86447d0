import { durationMs } from '../../config/parsers.ts';
import { operatorName } from '../../local/operator.ts';
import { purgePayloads, purgeTestSets, timeBefore } from '../../store/retention.ts';
import { type Command, JSON_OPTION, optionText, UsageError } from '../command.ts';

const DAY_MS = 86_400_000;

export const command: Command = {
  summary:
    'delete code, input, output and webhook secrets of submissions that ended longer ago than this, and test sets that no submission has used since; the log stays complete',
  options: {
    'older-than': { value: 'TIME', required: true, help: 'at least 1d, such as 90d' },
    json: JSON_OPTION,
  },
  example: 'purge --older-than 90d',
  async run(context) {
    const older_than_ms = durationMs(optionText(context, 'older-than'));
    if (older_than_ms === null || older_than_ms < DAY_MS)
      throw new UsageError('--older-than must be a time of at least 1d, such as 90d');
    const db = await context.database();
    const ended_before = await timeBefore(db, older_than_ms);
    const { length: test_sets } = await purgeTestSets(db, ended_before, operatorName());
    // It may stop at an event that is still to come.
    const submissions = await purgePayloads(db, ended_before, operatorName());
    const before = ended_before.toISOString();
    if (context.json) context.answer({ ended_before, submissions, test_sets });
    else
      context.answer(
        `${submissions} submissions that ended before ${before}\n${test_sets} test sets that nothing has used since`,
      );
    return 0;
  },
};
