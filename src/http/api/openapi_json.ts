/** GET /openapi.json */
import { STATUS } from '../wire/answer.ts';
import type { ApiCall } from './api_call.ts';
import { BARE } from './operation.ts';

export const openapiJson: ApiCall = {
  method: 'GET',
  path: '/openapi.json',
  keyed: false,
  operation: {
    id: 'openapi',
    tag: 'documents',
    summary: 'This document',
    description:
      'The API of this deployment: its languages, its limits, the fields that it accepts.',
    success: [{ status: '200', description: 'OpenAPI 3.1.', schemas: {}, headers: [] }],
    problems: BARE,
  },
  handler: (web) => ({
    status: STATUS.ok,
    body: web.openapi,
    type: 'application/json; charset=utf-8',
  }),
};
