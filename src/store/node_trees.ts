/**
 * A query or an expression as the server keeps it: a tree of nodes, as text. This tree is what the server runs, and not what
 * pg_get_viewdef and its like print of it: they leave out implicit coercions, and print the name of an operator where the
 * server calls the function beside it. So verify compares the trees, too.
 *
 * `canonicalTree` gives the same text for a tree and for the one that the server makes of its printed text, as a restored dump
 * has it. These differ:
 *
 *   * places in the text of the statement
 *   * names of tables and columns, which only printing uses
 *   * whether a coercion is printed, and with what syntax
 *   * the columns that a reader must have the right to
 *   * the OIDs of what initdb's counter or a user made: they are #1, #2 … in the order of their first appearance
 *
 * What must stay true: the server reads words one after the other, a field by its place, and skips the field's name unread. So
 * every name stays in the text, and a value is left out only if the server reads neither less nor more there than this file.
 * Otherwise somebody could write a tree in which the server and verify see different fields.
 */

type Item = string | Node | List;
type Node = { readonly type: string; readonly fields: readonly Field[] };
type List = { readonly items: readonly Item[] };
type Field = { readonly name: string; readonly values: readonly Item[] };

/** As pg_strtok() of the server: no other sign than these separates words. */
const TOKEN = /[(){}]|(?:\\[\s\S]|[^ \n\t(){}\\])+/g;

class Reader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(TOKEN) ?? [];
  }

  /** Everything up to the end. */
  all(): Item[] {
    const items: Item[] = [];
    while (this.#at < this.#tokens.length) items.push(this.#item());
    return items;
  }

  #item(): Item {
    const token = this.#take();
    if (token === '{') return this.#node();
    if (token === '(') return this.#list();
    return token;
  }

  #node(): Node {
    const type = this.#take();
    const fields: { name: string; values: Item[] }[] = [];
    while (this.#peek() !== '}') {
      const item = this.#item();
      if (typeof item === 'string' && item.startsWith(':')) fields.push({ name: item, values: [] });
      else if (fields.length > 0) fields.at(-1)!.values.push(item);
      else throw new Error(`a value without a name in ${type}`);
    }
    this.#at++;
    return { type, fields };
  }

  #list(): List {
    const items: Item[] = [];
    while (this.#peek() !== ')') items.push(this.#item());
    this.#at++;
    return { items };
  }

  #peek(): string {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw new Error('a tree without an end');
    return token;
  }

  #take(): string {
    const token = this.#peek();
    this.#at++;
    return token;
  }
}

const isWord = (value: Item): boolean => typeof value === 'string';

const isWords = (value: Item): boolean =>
  typeof value === 'string' || ('items' in value && value.items.every(isWord));

function isAlias(value: Item): boolean {
  if (typeof value === 'string') return true;
  if ('items' in value || value.type !== 'ALIAS' || value.fields.length !== 2) return false;
  const [name, columns] = value.fields as [Field, Field];
  return (
    [name.name, name.values.length].join(' ') === ':aliasname 1' &&
    [columns.name, columns.values.length].join(' ') === ':colnames 1' &&
    isWord(name.values[0]!) &&
    isWords(columns.values[0]!)
  );
}

/** Of these the server runs nothing. With the form in which it reads them. */
const PRINTED = new Map(
  (
    [
      ['location list_start list_end stmt_location stmt_len', isWord],
      ['joinmergedcols resname resorigtbl resorigcol varnosyn varattnosyn', isWord],
      ['funcformat relabelformat coerceformat convertformat row_format', isWord],
      ['joinleftcols joinrightcols selectedCols', isWords],
      ['alias eref join_using_alias', isAlias],
    ] as const
  ).flatMap(([names, has_form]) => names.split(' ').map((name) => [`:${name}`, has_form])),
);

/** As in server_lines.ts: smaller OIDs are the same on every server of a major version. */
const FIRST_COUNTED = 12_000;
/** regproc, regclass, regtype and their like: constants of these are OIDs. */
const OID_TYPES = new Set('24 2202 2203 2204 2205 2206 3734 3769 4089 4096 4191'.split(' '));

class Writer {
  readonly #numbers = new Map<string, string>();

  write(item: Item): string {
    if (typeof item === 'string') return this.#word(item);
    if ('items' in item) return `(${this.#all(item.items)})`;
    const is_oid = item.fields.some(
      ({ name, values: [type] }) => name === ':consttype' && OID_TYPES.has(type as string),
    );
    const fields = item.fields.map((field) => this.#field(field, is_oid));
    return `{${item.type} ${fields.join(' ')}}`;
  }

  #field({ name, values }: Field, is_oid: boolean): string {
    const [value, bracket, ...bytes] = values;
    if (values.length === 1 && PRINTED.get(name)?.(value!)) return name;
    if (bracket !== '[') return `${name} ${this.#all(values)}`;
    return `${name} ${value} [ ${is_oid ? this.#word(numberOf(bytes)) : bytes.map(byteOf).join(' ')}`;
  }

  #all(items: readonly Item[]): string {
    return items.map((each) => this.write(each)).join(' ');
  }

  #word(word: string): string {
    if (word.startsWith('#')) return `\\${word}`;
    if (!/^\d{5,}$/.test(word) || Number(word) < FIRST_COUNTED) return word;
    const known = this.#numbers.get(word);
    if (known) return known;
    const number = `#${this.#numbers.size + 1}`;
    this.#numbers.set(word, number);
    return number;
  }
}

/** Of a constant. Whether they have a sign depends on the processor. */
const byteOf = (value: Item) =>
  typeof value === 'string' && /^-?\d+$/.test(value) ? String(Number(value) & 0xff) : value;

/** The eight bytes of a constant, the lowest first, and the bracket after them. */
function numberOf(bytes: readonly Item[]): string {
  const [end, ...numbers] = bytes.map(byteOf).reverse();
  if (end !== ']' || numbers.length !== 8) throw new Error('a constant that is no OID');
  return String(numbers.reduce((sum: number, byte) => sum * 256 + Number(byte), 0));
}

/** What cannot be read stays as it is: it differs from every tree of the release. */
export function canonicalTree(text: string): string {
  try {
    const writer = new Writer();
    const items = new Reader(text).all();
    return items.map((item) => writer.write(item)).join(' ');
  } catch {
    return text;
  }
}
