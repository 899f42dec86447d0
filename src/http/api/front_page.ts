/** GET / */
import type { ApiCall } from './api_call.ts';
import { BARE } from './operation.ts';

export const frontPage: ApiCall = {
  method: 'GET',
  path: '/',
  keyed: false,
  operation: {
    id: 'page',
    tag: 'documents',
    summary: 'A page for people',
    description: 'The same as the OpenAPI document, to read, with calls to copy.',
    success: [{ status: '200', description: 'HTML.', schemas: {}, type: 'text/html', headers: [] }],
    problems: BARE,
  },
  handler: (web, { req }) => web.page(originOf(req.headers.host, web.config.tls !== 'off')),
};

/** The address at which the caller sees this service. A Host that is not a plain host name is not repeated. */
export function originOf(host: string | undefined, secure: boolean): string {
  const plain = /^[A-Za-z0-9.-]{1,253}(:\d{1,5})?$|^\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?$/;
  const shown = host !== undefined && plain.test(host) ? host : 'localhost';
  return `${secure ? 'https' : 'http'}://${shown}`;
}
