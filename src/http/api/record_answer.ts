/** Answers that have a record. A large one waits for its turn, and is then sent in pieces. */

import { mixedUp } from '../../db.ts';
import {
  payloadBytes,
  type ResultEncoding,
  type ResultRow,
  renderResult,
} from '../../domain/record.ts';
import { PIECE_BYTES, recordJson } from '../../domain/record_pieces.ts';
import { type Answer, PiecedBody } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { unavailable } from '../wire/problem.ts';
import type { Web } from './api_call.ts';
import { takeTurn } from './take_turn.ts';

/**
 * Of all large records that are being read, encoded and sent, in bytes of their payloads. Their JSON can be six times as
 * much, but only a piece of each exists at a time.
 */
export const LARGE_RECORDS = {
  most: 16 * 1024 * 1024,
  each: 10 * 1024 * 1024,
  /** Each costs about 36 KB, most of it its connection. */
  waiting: 500,
  patience_ms: 20_000,
  /** A client that takes longer keeps its place only while nobody waits for it. The patience of the others is far longer. */
  hold_ms: 1_000,
};

/** A record of fewer bytes of payloads is answered at once. */
const LIGHT_BYTES = 2 * 1024;

/** The record with status and headers of `answer`. Busy: there was no room for it in time. Null: the client is gone. */
export async function recordAnswer(
  web: Web,
  exchange: Exchange,
  row: ResultRow,
  answer: Pick<Answer, 'status' | 'headers'>,
  encoding: ResultEncoding = 'utf8',
): Promise<Answer | 'busy' | null> {
  if (row.account_id !== exchange.caller?.account_id) throw mixedUp('this request');
  if (row.large === undefined) {
    if (payloadBytes(row) <= LIGHT_BYTES) return { ...answer, body: renderResult(row, encoding) };
    return { ...answer, body: () => recordJson(row, encoding), heavy: true };
  }
  const { turns } = web.large_records;
  const client = clientTime();
  const cut = () => {
    if (client.ms() < LARGE_RECORDS.hold_ms) return false;
    exchange.req.socket.destroy();
    return true;
  };
  const owner = exchange.caller?.key_id ?? '';
  const turn = await takeTurn(turns, exchange, owner, row.large + PIECE_BYTES, cut);
  if (turn.kind === 'busy') return 'busy';
  if (turn.kind !== 'inside') return null;
  try {
    const record = await web.large_records.open(row, encoding);
    client.has();
    const next = () => client.without(record.next);
    const close = (was_sent: boolean) => {
      record.close();
      turn.leave(was_sent);
    };
    return { ...answer, body: new PiecedBody(record.length, next, close) };
  } catch (error) {
    turn.leave();
    throw error;
  }
}

/** How long the client took so far: the time in which the service makes the next piece is not its own. */
function clientTime() {
  let spent_ms = 0;
  let since_ms: number | null = null;
  const ms = () => spent_ms + (since_ms === null ? 0 : performance.now() - since_ms);
  const has = () => {
    since_ms = performance.now();
  };
  return {
    ms,
    has,
    async without<T>(work: () => Promise<T>): Promise<T> {
      spent_ms = ms();
      since_ms = null;
      const outcome = await work();
      has();
      return outcome;
    },
  };
}

const BUSY_RETRY_S = 5;

export const tooManyLarge = () =>
  unavailable(
    'This service sends as many large results at once as it may: ask again, or for fewer at a time.',
    BUSY_RETRY_S,
  );
