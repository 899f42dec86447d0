/**
 * Array types for postgres.js. By default it asks the server for them on every new connection. If the connection breaks
 * at that moment, the error reaches no caller and ends the process. The types used here have the same numbers in every
 * version of PostgreSQL, so they are listed.
 */

/** Element type to array type: bool, bytea, name, int8, int2, int4, text, oid, json, float8, timestamptz, uuid, jsonb. */
const ARRAY_OF: Readonly<Record<number, number>> = {
  16: 1000,
  17: 1001,
  19: 1003,
  20: 1016,
  21: 1005,
  23: 1007,
  25: 1009,
  26: 1028,
  114: 199,
  701: 1022,
  1184: 1185,
  2950: 2951,
  3802: 3807,
};

type Parse = (text: string) => unknown;
type Serialize = (value: unknown) => string;

/** The parsed options of postgres.js that its connections read, and that this file fills. */
type Inside = {
  readonly parsers: Record<number, Parse>;
  readonly serializers: Record<number, Serialize>;
  readonly shared: { readonly typeArrayMap: Record<number, number> };
};

export function knowArrays({ options }: { readonly options: object }): void {
  const { parsers, serializers, shared } = options as Inside;
  for (const [element, array] of Object.entries(ARRAY_OF).map(
    ([a, b]) => [Number(a), b] as const,
  )) {
    const parse = parsers[element] ?? ((text: string) => text);
    const serialize = serializers[element] ?? String;
    shared.typeArrayMap[element] = array;
    parsers[array] = (text) => parseArray(text, parse);
    serializers[array] = (value) =>
      Array.isArray(value) ? serializeArray(value, serialize) : String(value);
  }
}

/** Between two escapes it takes one step: a step for each character would overflow the stack on an item of some megabytes. */
const ITEM = /"([^"\\]*(?:\\.[^"\\]*)*)"|([^,{}]+)/gs;

/** For arrays of one dimension. */
function parseArray(text: string, parse: Parse): unknown[] {
  return [...text.matchAll(ITEM)].map(([, quoted, bare]) => {
    if (quoted !== undefined) return parse(quoted.replace(/\\(.)/gs, '$1'));
    return bare === 'NULL' ? null : parse(bare!);
  });
}

function serializeArray(items: readonly unknown[], serialize: Serialize): string {
  const texts = items.map((item) =>
    item === null ? 'NULL' : `"${serialize(item).replace(/["\\]/g, '\\$&')}"`,
  );
  return `{${texts.join(',')}}`;
}
