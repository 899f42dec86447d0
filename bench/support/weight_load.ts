/**
 * The heavy clients of weight.bench.ts, in a process of their own: what they do must not delay the one that measures. They get
 * the path of an order, and say when they have read it. Then they get a port, and send the requests of the order there. They reply
 * with the number of answers by status, of those with a wrong byte, and of those that were right to the end.
 */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { constants, setPriority } from 'node:os';

export type Order = {
  requests: string[];
  /** How many connections send each request, all at once. */
  each: number;
  /** The file with the body of every 200; null: it is not compared. */
  expected: string | null;
  /** Reads the first bytes of its first answer, and nothing more. */
  deaf: boolean;
  for_ms: number;
};
/** `wrong`: null if no answer was compared. */
export type Outcome = {
  connections: number;
  statuses: Record<string, number>;
  wrong: number | null;
  whole: number;
};

// Real clients are on machines of their own. These leave the processors to the service, and take what is left.
setPriority(constants.priority.PRIORITY_LOW);

let work = (_port: number): Promise<Outcome> => Promise.reject(new Error('there is no order'));
process.on('message', async (said: { order: string } | { port: number }) => {
  if ('port' in said) process.send!(await work(said.port));
  else {
    work = prepared(JSON.parse(readFileSync(said.order, 'utf8')));
    process.send!('ready');
  }
});

function prepared(order: Order): typeof work {
  const expected = order.expected === null ? null : readFileSync(order.expected);
  const requests = order.requests.map((request) => Buffer.from(request));
  const all = Array.from({ length: order.each }, () => requests).flat();
  return (port) => send(port, order, all, expected);
}

function send(
  port: number,
  { for_ms, deaf }: Order,
  all: Buffer[],
  expected: Buffer | null,
): Promise<Outcome> {
  const wrong = expected === null ? null : 0;
  const outcome: Outcome = { connections: all.length, statuses: {}, wrong, whole: 0 };
  const sockets: Socket[] = [];
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      for (const socket of sockets) socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(finish, for_ms);
    let left = all.length;
    for (const bytes of all) {
      const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(bytes));
      sockets.push(socket);
      socket.on('error', () => {});
      const read = reader(outcome, expected);
      socket.on('data', (chunk: Buffer) => {
        if (deaf) socket.pause();
        read(chunk);
      });
      socket.once('close', () => {
        left -= 1;
        if (left === 0) finish();
      });
    }
  });
}

/** Reads one answer, and compares its body as it comes. */
function reader(outcome: Outcome, expected: Buffer | null): (chunk: Buffer) => void {
  let head: Buffer | null = Buffer.alloc(0);
  let at = 0;
  let right = false;
  return (chunk) => {
    let body = chunk;
    if (head !== null) {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end === -1) return;
      const status = head.toString('latin1', 9, 12);
      outcome.statuses[status] = (outcome.statuses[status] ?? 0) + 1;
      right = status === '200' && expected !== null;
      body = head.subarray(end + 4);
      head = null;
    }
    if (!right || expected === null) return;
    right = body.equals(expected.subarray(at, at + body.length));
    at += body.length;
    if (!right) outcome.wrong = (outcome.wrong ?? 0) + 1;
    else if (at === expected.length) outcome.whole += 1;
  };
}
