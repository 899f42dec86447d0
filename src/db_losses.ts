/**
 * When a session is lost or a statement fails, postgres.js leaves some of it in the connection. This file keeps that from the
 * next statement. All of it was seen with version 3.4.9, most of it in test/db_losses.test.ts.
 */
import { Socket } from 'node:net';
import postgres from 'postgres';
import { Fault } from './fault.ts';

type Sql = (strings: TemplateStringsArray) => unknown;

type Statement = {
  /** Null until a connection has taken it. */
  state: object | null;
  prepared: boolean;
  readonly options: { onexecute?: (connection: Connection) => unknown };
  /** Of a statement of a transaction, it is the transaction's. */
  readonly handler: (statement: Statement) => void;
  reject(error: unknown): void;
  /** What `reject` was made here. */
  mended?: unknown;
  handle(): Promise<void>;
  forEachFn?: (row: unknown, rows: unknown[]) => void;
};

type Connection = {
  execute(statement: Statement): unknown;
  /** Belongs to the transaction that has the connection. */
  reserved: object | null;
};

/** The class of its statements is not exported. It is one for all connections of this process. */
export function mendStatements(db: Sql): void {
  const first = db`` as Statement;
  ofPools.add(first.handler);
  const statement = Object.getPrototypeOf(first) as Statement;
  if (statement.forEachFn) return;
  // It counts the rows of a connection, and goes on counting behind a result that broke off, by an error or with its session:
  // the next result would begin with so many holes, and who asked for several rows would get another one's.
  statement.forEachFn = (row, rows) => rows.push(row);
  const { handle } = statement;
  const answers = new WeakSet<object>();
  statement.handle = function (this: Statement) {
    const { reject, options, handler } = this;
    // A cursor has another one for each of its pages.
    if (reject === this.mended) return handle.call(this);
    this.mended = this.reject = (error: unknown) => {
      // The library gives the last error of a lost session to the first statement of the next one, too. That was not sent
      // yet, so it is sent now.
      if (error instanceof postgres.PostgresError) {
        if (this.state) answers.add(error);
        else if (answers.has(error)) return handler(this);
      }
      // Else the library might send it again in the next session.
      this.prepared = false;
      begins.delete(this);
      reject(error);
    };
    if (ofPools.has(handler)) watch(this, options);
    return handle.call(this);
  };
}

/**
 * Gives each transaction its connection. The library does not, if that connection has as many statements in flight as it may:
 * then it sends the `begin`, and nobody ends that transaction.
 */
function watch(statement: Statement, options: Statement['options']): void {
  const { onexecute } = options;
  if (onexecute) begins.set(statement, onexecute);
  options.onexecute = onexecute ? (connection) => give(statement, keepOut(connection)) : keepOut;
}

/** Answers whether the connection can take another statement. A transaction has it alone. */
function give(statement: Statement, connection: Connection): boolean {
  const onexecute = begins.get(statement);
  if (!onexecute) return true;
  begins.delete(statement);
  onexecute(connection);
  return false;
}

/** A statement with one of these handlers is sent by a pool. One with another handler belongs to a transaction. */
const ofPools = new WeakSet<Statement['handler']>();
/** The first statement of a transaction, with what gives the transaction its connection. */
const begins = new WeakMap<Statement, (connection: Connection) => void>();
const has_door = new WeakSet<Connection>();

/**
 * A transaction whose session is lost has no connection any more, but goes on sending to it: into no socket, which ends the
 * process, or into the next session, where each of its statements would count on its own.
 */
function keepOut(connection: Connection): Connection {
  if (has_door.has(connection)) return connection;
  has_door.add(connection);
  const { execute } = connection;
  const owners = new WeakMap<Statement['handler'], object>();
  connection.execute = (statement) => {
    const { handler } = statement;
    if (!ofPools.has(handler)) {
      const owner = owners.get(handler) ?? connection.reserved;
      if (owner === null || owner !== connection.reserved) {
        statement.reject(closedBy('the transaction has ended with its connection'));
        return true;
      }
      owners.set(handler, owner);
    }
    const has_room = execute(statement);
    return give(statement, connection) && has_room;
  };
  return connection;
}

export type Peer = { host: string[]; port: number[]; path?: string };

/** The option is missing in the library's types. After an error in it, the library would lose the connection. */
export function openSocket({ host, port, path }: Peer): Socket {
  const dial = (to: Socket) => (path ? to.connect(path) : to.connect(port[0]!, host[0]!));
  const socket = newSocket(dial, `${host[0]} ${port[0]}`);
  // For the name in the certificate.
  return Object.assign(socket, { host: host[0], port: port[0] });
}

type Fail = (error: Error) => void;

const in_tls = new WeakSet<Socket>();

/**
 * Ends a connection that nobody answers. With TLS around the socket and bytes that wait to be sent, `destroy` would raise an
 * error that nobody handles, and the socket would close only when the library has opened the next one.
 */
export function endSocket(socket: Socket): void {
  if (in_tls.has(socket) && !socket.destroyed) socket.emit('close', false);
  else socket.destroy();
}

function newSocket(dial: (socket: Socket) => void, server: string): Socket {
  const socket = new Socket();
  // A proxy that has no server to lead to accepts a connection and closes it. The library takes no notice: it connects again at
  // once, a thousand times a second, and the statement waits. So that is the error of a connection that was refused, and the
  // pauses between two tries grow.
  socket.once('end', () => {
    if (socket.bytesRead === 0)
      socket.destroy(closedBy('the database closed it at once', 'ECONNRESET'));
  });
  // Nor does it fail what was written between the error and the close of a socket. That then blocks the next session for good.
  // So all that is left fails here, just before the library learns of the close.
  const failing = () => socket.listeners('error')[0] as Fail | undefined;
  const failRest = (fail: Fail | undefined) =>
    fail?.(closedBy('PostgreSQL or the network closed it, or a new one is refused'));
  const { removeAllListeners, write } = socket;
  let is_dialed = false;
  let has_tls = true;
  const begin = () => {
    is_dialed = true;
    socket.write = write;
    try {
      dial(socket);
    } catch (error) {
      socket.destroy(error as Error);
    }
  };
  socket.once('close', () => is_dialed && failRest(failing()));
  // The library takes all listeners off before it puts TLS around this socket.
  socket.removeAllListeners = (...events: [event?: string | symbol]) => {
    const fail = failing();
    removeAllListeners.apply(socket, events);
    if (socket.destroyed) return socket;
    in_tls.add(socket);
    socket.once('close', () => (has_tls ? failRest(fail) : fail?.(withoutTls(server))));
    // The library goes on with TLS whatever the server has answered.
    if (!has_tls) socket.destroy();
    // With `sslnegotiation=direct`, nothing is written before.
    if (!is_dialed) begin();
    return socket;
  };
  // The library keeps what it wrote in the turn of the event loop in which the last session closed. It would send that first,
  // or nothing at all. So a socket is closed without an error if its first bytes are not those of a new session. The library
  // then opens another, until it has nothing left of the last session.
  socket.write = ((bytes: Buffer, ...more: []) => {
    socket.write = write;
    if (!isBeginning(bytes)) {
      socket.destroy();
      return true;
    }
    if (bytes.readInt32BE(4) === TLS_REQUEST)
      socket.once('data', ([answer]: Buffer) => {
        has_tls = answer !== NO;
        if (answer === YES) have_had_tls.add(server);
      });
    begin();
    return socket.write(bytes, ...more);
  }) as Socket['write'];
  // The first bytes come in this turn of the event loop.
  setImmediate(() => setImmediate(() => is_dialed || socket.destroy()));
  return socket;
}

const TLS_REQUEST = 80_877_103;
const [NO, YES] = Buffer.from('NS');

/** Servers, by their host and port. */
const have_had_tls = new Set<string>();

/** A server that had TLS will have it again, as after a change of its proxy: until then it is away. */
const withoutTls = (server: string): Error =>
  have_had_tls.has(server)
    ? closedBy('the server answers that it has no TLS now')
    : new Fault(
        'the server has no TLS',
        'use sslmode=disable in DATABASE_URL, or RUNLEDGER_DATABASE_TLS=disable, if the network is trusted',
      );

/** A request for TLS, or for a session: its length, and what it is. (That for a cancellation is not used.) */
const isBeginning = (bytes: Buffer): boolean =>
  bytes.length >= 8 &&
  bytes.readInt32BE(0) === bytes.length &&
  [TLS_REQUEST, 196_608].includes(bytes.readInt32BE(4));

const closedBy = (message: string, code = 'CONNECTION_CLOSED'): Error =>
  Object.assign(new Error(`the connection is lost: ${message}`), { code });
