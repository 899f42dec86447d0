/**
 * Values of headers and parameters. Pure: strings in, values or null out. The OpenAPI document has the expressions, so they
 * have no flags and no `\s`, which other languages read in other ways.
 */

const UUID_TEXT = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}';
export const UUID = new RegExp(`^${UUID_TEXT}$`);

/** In lower case, so that both spellings are the same id; null where the text is no UUID. */
export function parseUuid(text: string): string | null {
  return UUID.test(text) ? text.toLowerCase() : null;
}

/** The IETF draft writes an Idempotency-Key as a structured string. A bare UUID is taken, too. */
export const QUOTED_UUID = new RegExp(`^"${UUID_TEXT}"$`);

export function parseIdempotencyKey(text: string): string | null {
  const key = text.trim();
  return parseUuid(QUOTED_UUID.test(key) ? key.slice(1, -1) : key);
}

/** `wait=N` among other preferences (RFC 7240). */
export const PREFER_WAIT =
  /^(?:[^,]*,)*?[ \t]*[wW][aA][iI][tT][ \t]*=[ \t]*(?:"([0-9]{1,9})"|([0-9]{1,9}))[ \t]*(?:;[^,]*)?(?:,.*)?$/;

/**
 * Seconds of `wait` in a Prefer header, or null. The RFC asks a server to ignore a preference that it does not understand,
 * and to use the first where one is given twice.
 */
export function parsePreferWait(text: string | undefined): number | null {
  const found = PREFER_WAIT.exec(text ?? '');
  return found && Number(found[1] ?? found[2]);
}

/** application/json; a charset, where there is one, must be UTF-8. */
export function isJsonContentType(text: string | undefined): boolean {
  if (text === undefined) return false;
  const [type, ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name, value] = parameter.split('=').map((part) => part.trim());
    return name !== 'charset' || value === 'utf-8' || value === '"utf-8"' || value === 'utf8';
  });
}

export function isZipContentType(text: string | undefined): boolean {
  // Its parameters mean nothing here.
  return text?.split(';')[0]?.trim().toLowerCase() === 'application/zip';
}

export function isIdentityEncoding(text: string | undefined): boolean {
  return text === undefined || text.trim() === '' || text.trim().toLowerCase() === 'identity';
}

/** Node joins repeated values of the headers that this API reads; its types allow a list. */
export function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

/** Trace and parent have a digit other than 0. */
const TRACE_TEXT = '(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}';
/** Of version 00, or of a later one, which may go on. */
export const TRACEPARENT = new RegExp(
  `^(?:00-${TRACE_TEXT}|(?!00|ff)[0-9a-f]{2}-${TRACE_TEXT}(?:-.*)?)$`,
);

/** W3C Trace Context: a value that does not parse is ignored, and the request is not rejected for it. */
export function parseTraceparent(text: string | undefined): string | null {
  return text !== undefined && TRACEPARENT.test(text) ? text.slice(0, 55) : null;
}

/** Headers that must not be repeated: a proxy in front may have acted on the other value. */
const SINGLE_HEADERS = new Set([
  'host',
  'content-type',
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'x-api-key',
  'idempotency-key',
]);

export function repeatedHeaders(rawHeaders: readonly string[]): string[] {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    if (!SINGLE_HEADERS.has(name)) continue;
    if (seen.has(name)) repeated.add(name);
    seen.add(name);
  }
  return [...repeated];
}
