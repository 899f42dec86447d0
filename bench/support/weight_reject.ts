/**
 * For weight.bench.ts: rejects each request as soon as its head has come, and does nothing else. So it shows what the clients cost
 * by themselves. A body is not waited for, so clients that have not sent all of theirs are spared the rest.
 */
import { type AddressInfo, createServer } from 'node:net';

const ANSWER = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

const server = createServer((socket) => {
  let head = '';
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    head += chunk.toString('latin1', 0, 2048);
    if (!head.includes('\r\n\r\n')) return;
    socket.pause().removeAllListeners('data');
    socket.end(ANSWER, () => socket.destroy());
  });
}).listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  process.send!((server.address() as AddressInfo).port);
});
