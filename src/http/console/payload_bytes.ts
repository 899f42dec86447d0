/** The exact bytes of what an account sent or a program printed: never shown by the browser, always saved. */
import type { Asking, Console } from '../../store/console.ts';
import { PiecedBody, STATUS } from '../wire/answer.ts';
import { parseUuid } from '../wire/header_values.ts';
import { messagePage } from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';

const PIECE_BYTES = 1024 * 1024;

export const payloadBytes: ConsoleCall = {
  path: '/submissions/{id}/bytes/{kind}',
  kind: 'page',
  async handler({ store }, visit) {
    const { id: text = '', kind = '' } = visit.exchange.params;
    const id = parseUuid(text);
    const body = id && (await bodyOf(store, visit.asking, id, kind));
    if (!body) {
      const why = 'There are no such bytes: they were never there, or were purged.';
      return messagePage(visit, 404, 'No bytes', why);
    }
    return {
      status: STATUS.ok,
      type: 'application/octet-stream',
      headers: {
        'Content-Disposition': `attachment; filename="${id}.${kind}"`,
        'Content-Security-Policy': "default-src 'none'; sandbox",
      },
      body,
    };
  },
};

/** Read piece by piece, as the browser takes them. */
async function bodyOf(
  store: Console,
  asking: Asking,
  id: string,
  kind: string,
): Promise<PiecedBody | null> {
  const read = (from: number) => store.bytes(asking, { id, kind, from, at_most: PIECE_BYTES });
  const first = await read(0);
  if (first === null) return null;
  const { size } = first;
  let sent = 0;
  const next = async () => {
    if (sent >= size) return null;
    const piece = sent === 0 ? first : await read(sent);
    // A purge in between: the connection is cut, so that nobody takes a part for all of it.
    if (piece === null || piece.bytes.length === 0) throw new Error(`${id}: ${kind} is gone`);
    sent += piece.bytes.length;
    return piece.bytes;
  };
  return new PiecedBody(size, next, () => {});
}
