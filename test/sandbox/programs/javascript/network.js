const net = require('node:net');
const dgram = require('node:dgram');

function connect_out() {
  for (const where of args) {
    const at = where.lastIndexOf(':');
    const host = where.slice(0, at).replace(/[[\]]/g, '');
    const options = at > 0 ? { host, port: Number(where.slice(at + 1)) } : { path: where.replace(/^@/, '\0') };
    net
      .connect(options, () => say(`ESCAPED ${where}`))
      .on('error', (error) => say(`DENIED ${where} ${nameOf(error)}`));
  }
}

function look_up() {
  require('node:dns').lookup('example.com', (error, address) =>
    say(error ? `DENIED lookup ${nameOf(error)}` : `ESCAPED lookup ${address}`),
  );
  const socket = dgram.createSocket('udp4');
  socket.on('error', (error) => say(`DENIED UDP ${nameOf(error)}`));
  socket.send('x', 53, '8.8.8.8', (error) => {
    say(error ? `DENIED UDP ${nameOf(error)}` : 'ESCAPED UDP');
    socket.close();
  });
}

function inspector() {
  const { open, url } = require('node:inspector');
  open(9229, '0.0.0.0');
  say(url() ? `ESCAPED ${url()}` : 'DENIED the debugger does not listen');
}

function talk_within() {
  const server = net.createServer((socket) => socket.end('hello'));
  server.listen('/box/socket', () => {
    net.connect('/box/socket').on('data', (text) => {
      works('a socket of its own', () => String(text) === 'hello');
      server.close();
    }).on('error', (error) => {
      say(`FAILED ${nameOf(error)}`);
      server.close();
    });
  });
}
