import { runProcess } from '../../processes/run_process.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary: 'start the HTTP service and the delivery of webhooks',
  example: 'web',
  service: true,
  run: (context) => runProcess('web', context.say),
};
