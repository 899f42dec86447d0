/** GET /api/languages */
import * as v from 'valibot';
import { STATUS } from '../wire/answer.ts';
import type { ApiCall } from './api_call.ts';
import { COMMON, RATE } from './operation.ts';
import { withHealth } from './read_health.ts';

const answerOf = (on: readonly string[]) =>
  v.strictObject({
    languages: v.pipe(v.array(v.picklist(on)), v.description('What workers can run now.')),
  });

export const languages: ApiCall = {
  method: 'GET',
  path: '/api/languages',
  keyed: true,
  operation: {
    id: 'languages',
    summary: 'What can run now',
    success: (rules) => [
      {
        status: '200',
        description: 'The languages of the workers that are alive.',
        schemas: { Languages: answerOf(rules.languages) },
        headers: RATE,
        examples: { all: { value: { languages: rules.languages.toSorted() } } },
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (health) => {
      const offered: readonly string[] = web.config.languages;
      const body = { languages: health.languages.filter((name) => offered.includes(name)) };
      return { status: STATUS.ok, body };
    }),
};
