/** Answers that have a record. A large one waits for its turn, and is then sent in pieces. */
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
  /** A client that takes longer keeps its place only while nobody waits for it. */
  hold_ms: 15_000,
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
  if (row.large === undefined) {
    if (payloadBytes(row) <= LIGHT_BYTES) return { ...answer, body: renderResult(row, encoding) };
    return { ...answer, body: () => recordJson(row, encoding), heavy: true };
  }
  const { turns } = web.large_records;
  const cut = () => exchange.req.socket.destroy();
  const owner = exchange.caller?.key_id ?? '';
  const turn = await takeTurn(turns, exchange, owner, row.large + PIECE_BYTES, cut);
  if (turn.kind === 'busy') return 'busy';
  if (turn.kind === 'gone') return null;
  try {
    const record = await web.large_records.open(row, encoding);
    const close = () => {
      record.close();
      turn.leave();
    };
    return { ...answer, body: new PiecedBody(record.length, record.next, close) };
  } catch (error) {
    turn.leave();
    throw error;
  }
}

const BUSY_RETRY_S = 5;

export const tooManyLarge = () =>
  unavailable(
    'This service sends as many large results at once as it may: ask again, or for fewer at a time.',
    BUSY_RETRY_S,
  );
