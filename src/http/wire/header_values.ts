/** Values of headers and parameters. Pure: strings in, values or null out. */

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** In lower case, so that both spellings are the same id; null where the text is no UUID. */
export function parseUuid(text: string): string | null {
  return UUID.test(text) ? text.toLowerCase() : null;
}

/** A UUID, bare or in double quotes (the IETF draft writes it as a structured string). */
export function parseIdempotencyKey(text: string): string | null {
  const quoted = /^"([^"]*)"$/.exec(text.trim());
  return parseUuid(quoted ? quoted[1]! : text.trim());
}

/**
 * Seconds of `wait` in a Prefer header (RFC 7240), or null. The RFC asks a server to ignore a preference that it does
 * not understand, and to use the first where one is given twice.
 */
export function parsePreferWait(text: string | undefined): number | null {
  if (text === undefined) return null;
  for (const preference of text.split(',')) {
    const found = /^\s*wait\s*=\s*(?:"(\d{1,9})"|(\d{1,9}))\s*(?:;.*)?$/i.exec(preference);
    if (found) return Number(found[1] ?? found[2]);
  }
  return null;
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
  return text?.trim().toLowerCase() === 'application/zip';
}

export function isIdentityEncoding(text: string | undefined): boolean {
  return text === undefined || text.trim() === '' || text.trim().toLowerCase() === 'identity';
}

/** Node joins repeated values of the headers that this API reads; its types allow a list. */
export function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** W3C Trace Context: a value that does not parse is ignored, and the request is not rejected for it. */
export function parseTraceparent(text: string | undefined): string | null {
  const [, version, trace, parent, rest] = TRACEPARENT.exec(text ?? '') ?? [];
  if (version === undefined || version === 'ff') return null;
  if (version === '00' && rest !== undefined) return null;
  return /^0+$/.test(trace!) || /^0+$/.test(parent!) ? null : text!.slice(0, 55);
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
