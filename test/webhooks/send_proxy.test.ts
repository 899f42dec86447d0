import { execFile } from 'node:child_process';
import net from 'node:net';
import { promisify } from 'node:util';
import t from 'tap';
import { listen, openReceiver, RECEIVER_NAME, trusted } from './receiver.ts';

const run = promisify(execFile);
const script = new URL('send_alone.ts', import.meta.url).pathname;
const plainGet = "require('node:http').get('http://127.0.0.1:9/').on('error', () => {})";

t.test('proxy variables are ignored', async (t) => {
  await using proxy = await listen(net.createServer((socket) => socket.destroy()));
  const address = `http://127.0.0.1:${proxy.port}`;
  const words = ['http_proxy', 'https_proxy', 'all_proxy'].flatMap((name) => [
    name,
    name.toUpperCase(),
  ]);
  const env = {
    PATH: process.env['PATH'],
    NODE_USE_ENV_PROXY: '1',
    ...Object.fromEntries(words.map((name) => [name, address])),
  };
  await run(process.execPath, ['-e', plainGet], { env });
  const honoured = proxy.connections();
  t.ok(honoured > 0, 'Node itself honours them here, so the test can tell');

  await using secure = await openReceiver();
  await using plain = await openReceiver(undefined, { plain: true });
  for (const url of [
    `https://${RECEIVER_NAME}:${secure.port}/`,
    `http://127.0.0.1:${plain.port}/`,
  ]) {
    const { stdout } = await run(process.execPath, [script, JSON.stringify({ url, ca: trusted })], {
      env,
    });
    t.match(JSON.parse(stdout), { outcome: 'delivered', address: '127.0.0.1' }, url);
  }
  t.equal(proxy.connections(), honoured, 'no connection to the proxy');
});
