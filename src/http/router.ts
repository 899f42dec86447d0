/** From method and path to a call. polka matches the patterns; its own answers to errors and unknown paths are not used. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import polka from 'polka';
import type { Route } from './api/api_call.ts';
import type { Match } from './api/dispatch.ts';
import { localTarget } from './wire/exchange.ts';

export type OnRequest = (
  req: IncomingMessage,
  res: ServerResponse,
  match: Match,
  params: Record<string, string>,
) => void;

export function createRouter(
  calls: readonly Route[],
  onRequest: OnRequest,
): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = calls.map((call) => {
    // Made once, not for each request.
    const match: Match = { call };
    return { call, match, pattern: patternOf(call.path) };
  });
  const allowed = (path: string): string | null => {
    const methods: string[] = routes
      .filter(({ pattern }) => pattern.test(path))
      .map(({ call }) => call.method);
    if (path === '*') methods.push('GET', 'POST', 'DELETE');
    if (methods.length === 0) return null;
    return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  };
  const app = polka({
    onNoMatch: (req, res) => onRequest(req, res, { allow: allowed(req.path) }, {}),
    onError: (_error, req) => {
      req.socket.destroy();
    },
  });
  for (const { call, match, pattern } of routes) {
    app.add(call.method, pattern, (req, res) => onRequest(req, res, match, req.params));
  }
  return (req, res) => {
    req.url = localTarget(req.url ?? '/');
    app.handler(req as Parameters<typeof app.handler>[0], res, undefined as never);
  };
}

/** Paths match exactly: with other cases or extra slashes the check of the key would have two entrances. */
function patternOf(path: string): RegExp {
  const escaped = path.replace(/[.]/g, '\\$&').replace(/\{(\w+)\}/g, '(?<$1>[^/]+)');
  return new RegExp(`^${escaped}$`);
}
