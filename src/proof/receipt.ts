/**
 * A receipt: the events of one submission, each with the proof that it is in the log's tree, and the salts that make the
 * digests in them checkable. `GET /api/result/{id}/proof` answers with it.
 */
import { BadJson, parseStrictly } from '../domain/strict_json.ts';
import { BadNote, decode } from './note.ts';

export type ReceiptEvent = {
  readonly index: number;
  /** Base64 of the canonical bytes. */
  readonly entry: string;
  /** c2sp.org/tlog-proof@v1 */
  readonly proof: string;
};

export type Receipt = {
  readonly events: readonly ReceiptEvent[];
  /** By the kind of bytes; base64 of the salt. */
  readonly openings: Readonly<Record<string, { readonly salt: string }>>;
};

/** The file is no receipt at all. */
export class NoReceipt extends Error {}

/** Checks the shape alone: a receipt that was changed has it, too. Fields that a later version adds are ignored. */
export function parseReceipt(text: string): Receipt {
  const { events, openings } = objectOf(parsed(text));
  if (!Array.isArray(events) || events.length === 0) throw new NoReceipt('there are no events');
  return {
    events: events.map((event) => {
      const { index, entry, proof } = objectOf(event);
      if (typeof index !== 'number' || typeof entry !== 'string' || typeof proof !== 'string')
        throw new NoReceipt('an event has an index, an entry and a proof');
      return { index, entry, proof };
    }),
    openings: Object.fromEntries(
      Object.entries(objectOf(openings)).map(([kind, opening]) => {
        const { salt } = objectOf(opening);
        if (typeof salt !== 'string') throw new NoReceipt('an opening has a salt');
        return [kind, { salt }];
      }),
    ),
  };
}

function parsed(text: string): unknown {
  try {
    return parseStrictly(text);
  } catch (error) {
    if (error instanceof BadJson) throw new NoReceipt(error.message);
    throw error;
  }
}

function objectOf(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new NoReceipt('a part of it is not a JSON object');
  return value as Record<string, unknown>;
}

/** Throws BadNote for text that is not base64. */
export function bytesOf(base64: string): Buffer {
  const bytes = decode(base64);
  if (bytes === null) throw new BadNote('it is not base64');
  return bytes;
}
