import { serve } from '../../processes/serve_all.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary:
    'start everything on this machine: the schema, web, a worker, and PostgreSQL unless DATABASE_URL is set',
  example: 'serve',
  service: true,
  run: (context) => serve(context.say, context.answer),
};
