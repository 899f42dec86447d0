/**
 * What postgres.js leaves behind in a connection when a session is lost, or a statement fails, is kept from the next statement.
 * All of it was seen in its version 3.4.9; test/db_losses.test.ts shows each case.
 */
import { Socket } from 'node:net';
import postgres from 'postgres';

type Sql = (strings: TemplateStringsArray) => unknown;

type Statement = {
  executed: boolean;
  /** Null until a connection has taken it. */
  state: object | null;
  reject(error: unknown): void;
  handler(statement: Statement): void;
  handle(): Promise<void>;
  forEachFn?: (row: unknown, rows: unknown[]) => void;
};

/** The class of its statements is not exported. It is one for all connections of this process. */
export function mendStatements(db: Sql): void {
  const statement = Object.getPrototypeOf(db``) as Statement;
  if (statement.forEachFn) return;
  // It counts the rows of a connection, and goes on counting behind a result that broke off, by an error or with its session:
  // the next result would begin with so many holes, and who asked for several rows would get another one's.
  statement.forEachFn = (row, rows) => rows.push(row);
  const { handle } = statement;
  const answers = new WeakSet<object>();
  statement.handle = function (this: Statement) {
    const { reject } = this;
    if (!this.executed)
      this.reject = (error) => {
        // The last answer of a lost session comes again, as that to the first statement of the next session, which has not been
        // sent yet.
        if (error instanceof postgres.PostgresError) {
          if (this.state) answers.add(error);
          else if (answers.has(error)) return this.handler(this);
        }
        reject(error);
      };
    return handle.call(this);
  };
}

export type Peer = { host: string[]; port: number[]; path?: string };

/** The option is missing in the library's types. After an error in it, the library would lose the connection. */
export function openSocket({ host, port, path }: Peer): Socket {
  const socket = newSocket((to) => (path ? to.connect(path) : to.connect(port[0]!, host[0]!)));
  // For the name in the certificate.
  return Object.assign(socket, { host: host[0], port: port[0] });
}

type Fail = (error: Error) => void;

function newSocket(dial: (socket: Socket) => void): Socket {
  const socket = new Socket();
  // A proxy that has no server to lead to accepts a connection and closes it. The library takes no notice: it connects again at
  // once, a thousand times a second, and the statement waits. So that is the error of a connection that was refused, and the
  // pauses between two tries grow.
  socket.once('end', () => {
    if (socket.bytesRead === 0)
      socket.destroy(closedBy('the database closed it at once', 'ECONNRESET'));
  });
  // Nor does it fail what was written between the error and the close of a socket. That then blocks the next session for good. So
  // all that is left fails here, just before the library learns of the close.
  const failing = () => socket.listeners('error')[0] as Fail | undefined;
  let is_dialed = false;
  const failRest = (fail: Fail | undefined) => fail?.(closedBy('the database closed it'));
  socket.once('close', () => is_dialed && failRest(failing()));
  // The library takes all listeners off before it puts TLS around this socket.
  const { removeAllListeners, write } = socket;
  socket.removeAllListeners = (...events: [event?: string | symbol]) => {
    const fail = failing();
    removeAllListeners.apply(socket, events);
    if (!socket.destroyed) socket.once('close', () => failRest(fail));
    return socket;
  };
  // What was written in the very turn in which the last session closed is kept. It would be sent first, or nothing at all is
  // sent. A socket that begins so is closed before it is dialed, without an error: the library opens another, until it has
  // written what it kept.
  socket.write = ((bytes: Buffer, ...more: []) => {
    socket.write = write;
    if (!isBeginning(bytes)) {
      socket.destroy();
      return true;
    }
    is_dialed = true;
    dial(socket);
    return socket.write(bytes, ...more);
  }) as Socket['write'];
  // The first bytes come in this turn of the event loop.
  setImmediate(() => setImmediate(() => is_dialed || socket.destroy()));
  return socket;
}

/** A request for TLS, or for a session: its length, and what it is. */
const isBeginning = (bytes: Buffer): boolean =>
  bytes.length >= 8 &&
  bytes.readInt32BE(0) === bytes.length &&
  [80_877_103, 196_608].includes(bytes.readInt32BE(4));

const closedBy = (message: string, code = 'CONNECTION_CLOSED'): Error =>
  Object.assign(new Error(`the connection is lost: ${message}`), { code });
