/** Every address that this service has. The OpenAPI document has an operation for each. */

import { createReadiness, health, healthReady, languages, livez } from './health.ts';
import { originOf, page } from './page.ts';
import { STATUS } from './problem.ts';
import { result } from './result.ts';
import { submit } from './submit.ts';
import type { Route } from './web.ts';

export function routeTable(): readonly Route[] {
  const readyz = createReadiness();
  return [
    { method: 'POST', path: '/api/submit', keyed: true, handler: submit },
    { method: 'GET', path: '/api/result/{id}', keyed: true, handler: result },
    { method: 'GET', path: '/api/languages', keyed: true, handler: languages },
    { method: 'GET', path: '/api/health', keyed: true, handler: health },
    { method: 'GET', path: '/api/health/ready', keyed: true, handler: healthReady },
    { method: 'GET', path: '/livez', keyed: false, handler: livez },
    { method: 'GET', path: '/readyz', keyed: false, handler: (web) => readyz(web) },
    {
      method: 'GET',
      path: '/openapi.json',
      keyed: false,
      handler: (web) => ({
        status: STATUS.ok,
        body: web.openapi,
        type: 'application/json; charset=utf-8',
      }),
    },
    {
      method: 'GET',
      path: '/',
      keyed: false,
      handler: (web, { req }) =>
        page(originOf(req.headers.host, web.config.tls !== 'off'), web.config.languages),
    },
  ];
}

/** Paths match as they are written: no other case, no slash more, or one key check would have two doors. */
export function patternOf(path: string): RegExp {
  const escaped = path.replace(/[.]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>[^/]+)');
  return new RegExp(`^${escaped}$`);
}
