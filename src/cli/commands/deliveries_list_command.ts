import { DELIVERY_STATUSES } from '../../domain/delivery_outcomes.ts';
import { listDeliveries } from '../../store/deliveries.ts';
import { type Command, JSON_OPTION, optionText, UsageError } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary: 'list the webhook deliveries and the outcome of each, newest first',
  options: {
    status: { value: DELIVERY_STATUSES.join('|'), help: 'only deliveries in this status' },
    limit: { value: 'N', default: '50', help: 'how many to list' },
    json: JSON_OPTION,
  },
  example: 'deliveries list --status exhausted',
  async run(context) {
    const { status } = context.options;
    if (status !== undefined && !DELIVERY_STATUSES.some((name) => name === status)) {
      throw new UsageError(`--status must be one of ${DELIVERY_STATUSES.join(', ')}`);
    }
    const limit = optionText(context, 'limit');
    if (!/^[1-9]\d{0,5}$/.test(limit)) throw new UsageError('--limit must be a number from 1');
    const filter = { status: status === undefined ? null : String(status), limit: Number(limit) };
    const rows = await listDeliveries(await context.database(), filter);
    context.answer(context.json ? rows : table(rows));
    return 0;
  },
};
