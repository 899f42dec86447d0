/** Schemas on the page: each field by its path (`tests[].limits.memory`), with its type, its bounds and its description. */
import { nameOf, type Schema } from '../api/openapi_types.ts';
import { code, escaped, link, prose, slug, terms } from './html.ts';

export const schemaId = (name: string): string => `schema-${slug(name)}`;

export function schemaSection(name: string, schema: Schema): string {
  const fields = fieldsOf(schema, '', false);
  // A value that is no object has one line, without a name.
  const shown = fields.length > 0 ? fields : [{ path: name, schema, required: false }];
  return `<section><h3 id="${schemaId(name)}">${code(name)}</h3>
${schema.description === undefined ? '' : `<p>${prose(schema.description)}</p>`}${terms(shown.map(term))}</section>`;
}

/** Its type and bounds, in words and code. */
export function typeOf(schema: Schema): string {
  const bounds = boundsOf(schema);
  return [kindOf(schema), ...bounds].join(', ');
}

type Field = { path: string; schema: Schema; required: boolean };

function term({ path, schema, required }: Field): [string, string] {
  const marks = [typeOf(schema), ...(required ? ['required'] : [])].join(', ');
  return [`${code(path)} <small>${marks}</small>`, prose(schema.description ?? '')];
}

/** Those of an object, and of the objects within it. */
function fieldsOf(schema: Schema, path: string, named: boolean): Field[] {
  const { properties = {}, required = [], items, anyOf = [], additionalProperties } = schema;
  const own = Object.entries(properties).flatMap(([name, field]): Field[] => {
    const at = named ? `${path}.${name}` : `${path}${name}`;
    return [
      { path: at, schema: field, required: required.includes(name) },
      ...fieldsOf(field, at, true),
    ];
  });
  const inner = [
    ...(items === undefined ? [] : fieldsOf(items, `${path}[]`, true)),
    ...anyOf.flatMap((choice) => fieldsOf(choice, path, named)),
    ...(typeof additionalProperties === 'object'
      ? fieldsOf(additionalProperties, `${path}.*`, true)
      : []),
  ];
  return [...own, ...inner];
}

function kindOf(schema: Schema): string {
  const { $ref, enum: words, type, items, anyOf } = schema;
  if ($ref !== undefined) return link(schemaId(nameOf($ref)), nameOf($ref));
  if ('const' in schema) return code(String(schema.const));
  if (words !== undefined) return `one of ${words.map((word) => code(String(word))).join(' ')}`;
  if (anyOf !== undefined) return anyOf.map(choiceOf).join(', or ');
  const types = [type ?? 'any value'].flat();
  if (items === undefined) return escaped(types.join(' or '));
  const or_null = types.includes('null') ? ' or null' : '';
  return `array of ${kindOf(items)}${inBrackets(items)}${or_null}`;
}

const choiceOf = (schema: Schema): string =>
  `${typeOf(schema)}${schema.description === undefined ? '' : ` (${prose(schema.description)})`}`;

function inBrackets(schema: Schema): string {
  const bounds = boundsOf(schema);
  return bounds.length === 0 ? '' : ` (${bounds.join(', ')})`;
}

function boundsOf(schema: Schema): string[] {
  const { format, pattern, contentEncoding } = schema;
  return [
    range(schema.minimum, schema.maximum, ''),
    range(schema.minLength, schema.maxLength, ' characters'),
    range(schema.minItems, schema.maxItems, ' items'),
    format && escaped(format),
    contentEncoding && escaped(contentEncoding),
    pattern && `pattern ${code(pattern)}`,
  ].filter((each): each is string => Boolean(each));
}

function range(least: number | undefined, most: number | undefined, unit: string): string | null {
  const shown = (value: number) => value.toLocaleString('en', { maximumFractionDigits: 6 });
  if (least !== undefined && most !== undefined) return `${shown(least)} to ${shown(most)}${unit}`;
  if (least !== undefined) return `at least ${shown(least)}${unit}`;
  return most === undefined ? null : `at most ${shown(most)}${unit}`;
}
