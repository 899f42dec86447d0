/**
 * Messages whose time was over while this service read no more of their connection. They are forgiven, and Node says only once
 * that the time of a message is over. So from when the connection is read on, each has the request timeout again.
 */
import type { Duplex } from 'node:stream';
import type { Exchange } from './exchange.ts';

/** Either the body of a request, or what comes behind one, whose head is not whole yet. */
type Untimed = { message: Exchange } | { behind: Exchange | undefined };

export type UntimedMessages = {
  /** The newest request has come on this connection. */
  came(socket: Duplex, exchange: Exchange): void;
  forgive(socket: Duplex): void;
  /** It is read on. */
  readOn(socket: Duplex): void;
};

export function createUntimedMessages(parts: {
  timeout_ms: () => number;
  /** The request whose turn it is. */
  first: (socket: Duplex) => Exchange | undefined;
  /** Its handler bounds by itself how slowly the body may come. */
  isTimed: (exchange: Exchange) => boolean;
}): UntimedMessages {
  const newest = new WeakMap<Duplex, Exchange>();
  const forgiven = new WeakMap<Duplex, Untimed>();

  function time(socket: Duplex, untimed: Untimed, is_read = false): void {
    const look = () => {
      if (socket.destroyed) return;
      if ('behind' in untimed) {
        const next = newest.get(socket);
        if (next === untimed.behind) socket.destroy();
        else if (!next!.req.complete) time(socket, { message: next! });
        return;
      }
      const { message } = untimed;
      if (message.req.complete) return;
      // Nobody reads its body before its turn.
      const is_its_turn = parts.first(socket) === message && !parts.isTimed(message);
      if (is_its_turn && is_read) socket.destroy();
      else time(socket, untimed, is_its_turn);
    };
    setTimeout(look, parts.timeout_ms()).unref();
  }

  return {
    came: (socket, exchange) => void newest.set(socket, exchange),
    forgive(socket) {
      const last = newest.get(socket);
      const is_body = last !== undefined && !last.req.complete;
      forgiven.set(socket, is_body ? { message: last } : { behind: last });
    },
    readOn(socket) {
      const untimed = forgiven.get(socket);
      if (untimed === undefined) return;
      forgiven.delete(socket);
      time(socket, untimed);
    },
  };
}
