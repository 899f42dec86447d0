/** A body that is made piece by piece, over a real connection. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { PiecedBody } from '../../src/http/wire/answer.ts';
import { sendPieces } from '../../src/http/wire/send_pieces.ts';
import { inTime } from '../support/eventually.ts';
import { wire } from './support/call.ts';

const PIECE = Buffer.alloc(1024 * 1024, 'x');
/** More than a connection takes before its client reads. */
const PIECES = 30;

t.test('it is closed once, and says whether all of it was sent', async (t) => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;

  const closed = async (
    method: string,
    use: (line: ReturnType<typeof wire>) => Promise<unknown>,
    most_ms?: number,
  ) => {
    const line = wire(port);
    t.teardown(() => line.socket.destroy());
    const requested = once(server, 'request');
    line.send(`${method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const [, res] = await requested;
    let left = PIECES;
    const next = async () => (left-- > 0 ? PIECE : null);
    const closes: boolean[] = [];
    res.writeHead(200, { 'Content-Length': PIECES * PIECE.length });
    const body = new PiecedBody(0, next, (was_sent) => closes.push(was_sent));
    const sending = sendPieces(res, body, most_ms);
    await use(line);
    await inTime(sending, 'the end of the body');
    return closes;
  };
  const read = (line: ReturnType<typeof wire>) => line.ended();
  const hangUp = async ({ socket, until }: ReturnType<typeof wire>) => {
    await until(/\r\n\r\n/);
    socket.destroy();
  };
  t.same(await closed('GET', read), [true]);
  t.same(await closed('HEAD', read), [true]);
  t.same(await closed('GET', hangUp), [false]);
  const readNothing = async ({ socket }: ReturnType<typeof wire>) => void socket.pause();
  t.same(await closed('GET', readNothing, 500), [false], 'its time is over');
});
