/** A server that answers as another program at the address of the service does. */
import { once } from 'node:events';
import { createServer, type OutgoingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

type Test = { teardown(work: () => unknown): void };
/** `bodies`: of the calls that were answered, in their order. */
export type Answering = { origin: string; readonly seen: string[]; readonly bodies: string[] };

export const PAGE = { type: 'text/html', body: '<!doctype html><title>Another site</title>' };

/** Streams of one submission: the second one begins with output that came in the first. */
export const CUT_STREAMS = [
  [
    'id: 1\nevent: started\ndata: {}',
    'event: output\ndata: {"attempt":1,"stream":"stdout","at":0,"text":"ab"}',
    'event: output\ndata: {"attempt":1,"stream":"stderr","at":0,"text":"oops"}',
    'event: output\ndata: {"attempt":1,"stream":"stdout","at":2,"text":"c"}',
  ],
  [
    'event: output\ndata: {"attempt":1,"stream":"stdout","at":0,"text":"ab"}',
    'event: output\ndata: {"attempt":1,"stream":"stdout","at":2,"text":"c"}',
    'event: output\ndata: {"attempt":1,"stream":"stdout","at":3,"text":"d"}',
    'event: output\ndata: {"attempt":2,"stream":"stdout","at":0,"text":"ab"}',
    'id: 2\nevent: completed\ndata: {}',
  ],
].map((messages) => ({
  type: 'text/event-stream',
  body: messages.map((message) => `${message}\n\n`).join(''),
}));
/** What they show, each piece once. */
export const CUT_OUTPUT = ['ab', 'oops', 'c', 'd', 'ab'];

type Answer = { status?: number; type?: string; body: string; headers?: OutgoingHttpHeaders };

/** Of a list, each call gets its own, and the last one each that follows. Without an answer it takes calls and says nothing. */
export async function answering(
  t: Test,
  answer: Answer | readonly Answer[] | null,
): Promise<Answering> {
  const seen: string[] = [];
  const bodies: string[] = [];
  const server = createServer(async (req, res) => {
    seen.push(`${req.method} ${req.url}`);
    if (answer === null) return;
    const answers: readonly Answer[] = Array.isArray(answer) ? answer : [answer];
    const mine = answers[Math.min(seen.length, answers.length) - 1]!;
    const { status = 200, type = 'application/json', body, headers } = mine;
    bodies.push(await text(req).catch(() => ''));
    res.writeHead(status, { 'content-type': type, ...headers }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, bodies };
}
