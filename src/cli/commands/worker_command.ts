import { runProcess } from '../../processes/run_process.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary: 'start a worker, which runs submissions in boxes',
  example: 'worker',
  service: true,
  run: (context) => runProcess('worker', context.say),
};
