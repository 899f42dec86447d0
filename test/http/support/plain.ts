import type { Reply } from './call.ts';

/** An answer without the parts that differ from request to request. */
export function plain(reply: Reply): string {
  const headers = reply.rawHeaders.filter((_, at, all) => {
    const name = all[at - (at % 2)]!.toLowerCase();
    return !['date', 'x-request-id', 'ratelimit'].includes(name);
  });
  return JSON.stringify([reply.status, headers, reply.text]);
}
