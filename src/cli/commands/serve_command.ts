import { runPart, serve as serveAll } from '../main.ts';
import type { Command } from './command.ts';

export const serve: Command = {
  usage: '',
  summary:
    'everything on this machine: PostgreSQL where DATABASE_URL is not set, schema, web and worker',
  run: (context) => serveAll(context.say, context.answer),
};

export const web: Command = {
  usage: '',
  summary: 'the HTTP service and the delivery of webhooks',
  run: (context) => runPart('web', context.say),
};

export const worker: Command = {
  usage: '',
  summary: 'runs submissions in boxes',
  run: (context) => runPart('worker', context.say),
};
