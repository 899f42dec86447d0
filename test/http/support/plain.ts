import type { Reply } from './call.ts';

/** Everything of an answer but what names this very request. */
export function plain(reply: Reply): string {
  const headers = reply.rawHeaders.filter((_, at, all) => {
    const name = all[at - (at % 2)]!.toLowerCase();
    return !['date', 'x-request-id', 'ratelimit'].includes(name);
  });
  return JSON.stringify([reply.status, headers, reply.text]);
}
