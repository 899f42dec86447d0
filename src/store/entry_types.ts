/** What is known of the type of an event, found by the bytes of its name: no string is made for each event of a large log. */
import { eventTypes } from '../domain/events.ts';
import { kindOf } from './stream_kinds.ts';

export type EntryType = {
  readonly name: string;
  /** What its streams are about. */
  readonly kind: string;
  /** How many schemas of it this version knows; 0: it does not know the type. */
  readonly schemas: number;
};

const bytesOf = (name: string) => Uint8Array.from(Buffer.from(name, 'latin1'));

/** Those of this version, by their length. */
const known: (readonly { readonly bytes: Uint8Array; readonly type: EntryType }[])[] = [];
for (const [name, schemas] of Object.entries(eventTypes)) {
  const type = { name, kind: kindOf(name), schemas: schemas.length };
  known[name.length] = [...(known[name.length] ?? []), { bytes: bytesOf(name), type }];
}

export function typeIn(entry: Buffer, at: number, length: number): EntryType {
  for (const { bytes, type } of known[length] ?? []) if (isAt(entry, at, bytes)) return type;
  const name = entry.toString('latin1', at, at + length);
  return { name, kind: kindOf(name), schemas: 0 };
}

function isAt(entry: Buffer, at: number, bytes: Uint8Array): boolean {
  for (let n = 0; n < bytes.length; n++) if (entry[at + n] !== bytes[n]) return false;
  return true;
}
