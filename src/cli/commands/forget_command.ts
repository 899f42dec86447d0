import { operatorName } from '../../local/operator.ts';
import { forgetAccount, forgetSubmission } from '../../store/retention.ts';
import { type Command, CommandFailed, isUuid, JSON_OPTION, UsageError } from '../command.ts';

export const command: Command = {
  summary:
    'delete what one submission, or all submissions of an account, sent and received, and the account’s test sets; the log stays complete',
  options: {
    account: { value: 'NAME', help: 'all submissions and test sets of the account' },
    submission: { value: 'ID', help: 'this submission' },
    json: JSON_OPTION,
  },
  example: 'forget --account acme',
  async run(context) {
    const { account, submission } = context.options;
    if ((account === undefined) === (submission === undefined))
      throw new UsageError('name one of --account NAME and --submission ID');
    if (submission !== undefined && !isUuid(String(submission)))
      throw new UsageError(`not an id: ${submission}`);
    const db = await context.database();
    const forgotten =
      account === undefined
        ? await forgetSubmission(db, String(submission), operatorName())
        : await forgetAccount(db, String(account), operatorName());
    if (forgotten === null)
      throw new CommandFailed(
        `there is no ${account === undefined ? `submission ${submission}` : `account ${account}`}`,
      );
    const { submissions, open, test_sets, test_sets_left, ids } = forgotten;
    if (context.json) context.answer(forgotten);
    else {
      context.say(`${submissions} submissions, ${test_sets} test sets`);
      if (ids.length > 0) {
        context.say('auditors need in their removals file:');
        context.answer(ids.map((id) => `forgotten ${id}`).join('\n'));
      }
    }
    const left = [
      ...(open > 0 ? [`${open} submissions have not ended, or their webhooks wait`] : []),
      ...(test_sets_left > 0 ? [`${test_sets_left} test sets are left: something uses them`] : []),
    ];
    if (left.length > 0) throw new CommandFailed(`${left.join('; ')}; run this again later`);
    return 0;
  },
};
