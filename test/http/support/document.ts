/**
 * The OpenAPI document as a client reads it, and an independent validator for its schemas. Answers' schemas are open, for fields
 * of later versions; here they are closed, so that a field that the document lacks fails a test.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { call, type Reply } from './call.ts';

type Schema = object;
type Content = { schema: Schema; examples?: Record<string, { value: unknown }> };
type RequestExample = { value: object; 'x-answer': string };

type Parameter = {
  name: string;
  in: string;
  description: string;
  example: unknown;
  schema: Schema;
};

export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: {
    content: { 'application/json': { examples: Record<string, RequestExample> } };
  };
  responses: Record<
    string,
    { headers?: Record<string, unknown>; content?: Record<string, Content> }
  >;
};

export type Document = {
  json: {
    openapi: string;
    info: { contact: object; license: object; description: string };
    servers: { url: string }[];
    tags: { name: string; description: string }[];
    paths: Record<string, Record<string, Operation>>;
    components: Record<string, Record<string, object>>;
  };
  operation(method: string, path: string): Operation;
  /** Whether the value matches the schema of that name. */
  check(name: string, value: unknown): boolean;
  checkSchema(schema: Schema, value: unknown): boolean;
};

/** `view`: the document by which values are checked. */
export async function readDocument(origin: string, view = withClosedAnswers): Promise<Document> {
  const { json } = await call(origin, { path: '/openapi.json' });
  const ajv = new Ajv2020({ strict: false, allErrors: false });
  formats.default(ajv);
  ajv.addSchema(view(json), 'openapi');
  const compiled = new Map<string, ReturnType<Ajv2020['compile']>>();
  const checkSchema = (schema: Schema, value: unknown) => {
    const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/'));
    const name = JSON.stringify(absolute);
    const check = compiled.get(name) ?? ajv.compile(absolute);
    compiled.set(name, check);
    return check(value) === true;
  };
  return {
    json,
    operation: (method, path) => json.paths[path][method],
    checkSchema,
    check: (name, value) => checkSchema({ $ref: `#/components/schemas/${name}` }, value),
  };
}

/** Of a request's method and address; null: the document has none. HEAD is answered as GET is. */
export function operationOf({ paths }: Document['json'], method: string, target: string) {
  const path = target.split('?')[0]!;
  const isOf = (template: string) =>
    new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
  const template = Object.keys(paths).find(isOf);
  const asked = method === 'HEAD' ? 'get' : method.toLowerCase();
  return (template !== undefined && paths[template]![asked]) || null;
}

/** Where an answer is not as the operation says: its status, headers and body. An answer to HEAD has no body. */
export function disagreements(
  document: Document,
  { responses }: Operation,
  { status, headers, text, json }: Omit<Reply, 'rawHeaders'>,
  has_body = true,
): string[] {
  const response = responses[String(status)];
  if (response === undefined) return [`${status} is not documented`];
  const namesIn = (object: object) => Object.keys(object).map((name) => name.toLowerCase());
  const documented = namesIn(response.headers ?? {});
  const found = namesIn(document.json.components['headers']!)
    .filter((name) => Object.hasOwn(headers, name) && !documented.includes(name))
    .map((name) => `${name} is not documented`);
  if (text === '' && !(has_body && response.content)) return found;
  const type = headers['content-type']?.split(';')[0] ?? 'no type';
  const content = response.content?.[type];
  if (content === undefined || !has_body) found.push(`a body of ${type} is not documented`);
  else if (type === 'application/json' && !document.checkSchema(content.schema, json))
    found.push('its body is not as the schema says');
  return found;
}

/** Without it, an answer may have any field more than the document says. */
export function withClosedAnswers(document: Document['json']): Document['json'] {
  const schemas = { ...document.components['schemas'] };
  for (const name of answersOf(document)) schemas[name] = closed(schemas[name]!);
  return { ...document, components: { ...document.components, schemas } };
}

/** The names of the schemas of answers. */
export function answersOf({ paths }: Document['json']): string[] {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const text = JSON.stringify(operations.map(({ responses }) => responses));
  const names = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!);
  return [...new Set(names)];
}

const closed = (schema: object): object =>
  JSON.parse(JSON.stringify(schema), (_, value) =>
    isObjectSchema(value) ? { ...value, additionalProperties: false } : value,
  );

/** With names of its own: one without is a table, whose names are data. */
export const isObjectSchema = (value: unknown): value is Record<string, unknown> =>
  [(value as { type?: unknown } | null)?.type].flat().includes('object') &&
  Object.hasOwn(value as object, 'properties');
