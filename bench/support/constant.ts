/** The floor of HTTP: polka reads the body and always sends the same answer. */
import type { AddressInfo } from 'node:net';
import polka from 'polka';

const ANSWER = Buffer.from(JSON.stringify({ id: '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11' }));

const app = polka().post('/api/submit', (req, res) => {
  req.resume().on('end', () => {
    res.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length });
    res.end(ANSWER);
  });
});
app.listen(0, '127.0.0.1', () => {
  process.send?.((app.server.address() as AddressInfo).port);
});
process.on('disconnect', () => process.exit());
