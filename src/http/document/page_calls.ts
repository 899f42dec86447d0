/** The calls on the page, in sections by tag; then every error word and every header. */
import {
  nameOf,
  type OpenapiDocument,
  type OperationObject,
  type ParameterObject,
  type ResponseObject,
} from '../api/openapi_types.ts';
import { block, code, details, escaped, link, prose, slug, terms } from './html.ts';
import { typeOf } from './page_fields.ts';
import { shellCall } from './shell_call.ts';

export type PageCall = { method: string; path: string; operation: OperationObject };

export function callsWith(tag: string, { paths }: OpenapiDocument): PageCall[] {
  return allCalls(paths).filter(({ operation }) => operation.tags.includes(tag));
}

const allCalls = (paths: OpenapiDocument['paths']): PageCall[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  );

export const callId = ({ operation }: PageCall): string => `call-${operation.operationId}`;

export function callSection(call: PageCall): string {
  const { method, path, operation } = call;
  const { summary, description, parameters = [], responses } = operation;
  return `<section><h3 id="${callId(call)}">${code(`${method} ${path}`)}: ${escaped(summary)}</h3>
<p>${prose(description)}</p>
${block(shellCall(method, path, operation))}
${parameters.length === 0 ? '' : details('Parameters and headers', terms(parameters.map(parameterTerm)))}
${bodyOf(operation)}
${details('Answers', terms(Object.entries(responses).map(responseTerm)))}</section>`;
}

function parameterTerm(parameter: ParameterObject): [string, string] {
  const { name, in: place, required, description, schema } = parameter;
  const marks = [place, typeOf(schema), ...(required ? ['required'] : [])].join(', ');
  return [`${code(name)} <small>${marks}</small>`, prose(description)];
}

function bodyOf({ requestBody }: OperationObject): string {
  const contents = Object.entries(requestBody?.content ?? {}).map(([type, content]) => {
    const { schema, examples = {} } = content;
    const shown = Object.values(examples).map(
      ({ summary = '', value }) => `<h4>${escaped(summary)}</h4>${block(indented(value))}`,
    );
    const what = schema.format === 'binary' ? 'Bytes' : typeOf(schema);
    return `<p>Body: ${what}, as ${code(type)}.</p>${shown.length === 0 ? '' : details('Examples of bodies', shown.join('\n'))}`;
  });
  return contents.join('\n');
}

const indented = (value: unknown): string => JSON.stringify(value, null, 2);

function responseTerm([status, response]: [string, ResponseObject]): [string, string] {
  const { description, headers, content = {} } = response;
  const names = Object.keys(headers).map((name) => link(headerId(name), name));
  const contents = Object.entries(content).map(([type, { schema, examples = {} }]) => {
    const known = schema.$ref !== undefined || schema.anyOf !== undefined;
    const shown = known ? [typeOf(schema)] : [];
    if (!known || type !== 'application/json') shown.unshift(code(type));
    const what = ` ${shown.join(' of ')}.`;
    const [first] = Number(status) < 300 ? Object.values(examples) : [];
    return `${what}${first === undefined ? '' : details('Example', block(indented(first.value)))}`;
  });
  return [
    code(status),
    `${prose(description)}${contents.join('')} <small>Headers: ${names.join(', ')}.</small>`,
  ];
}

export const headerId = (name: string): string => `header-${slug(name)}`;

type Word = { status: string; message: string };

/** Every error word, with its status and its message, from the examples of answers. */
export function errorTerms({ paths }: OpenapiDocument): [string, string][] {
  const words = new Map<string, Word>();
  for (const { operation } of allCalls(paths)) {
    for (const [status, { content }] of Object.entries(operation.responses)) {
      const json = content?.['application/json'];
      if (json?.schema.$ref === undefined || nameOf(json.schema.$ref) !== 'Problem') continue;
      for (const { value } of Object.values(json.examples ?? {})) {
        const { error, message } = value as { error: string; message: string };
        words.set(error, { status, message });
      }
    }
  }
  return [...words]
    .sort(([, a], [, b]) => Number(a.status) - Number(b.status))
    .map(([word, { status, message }]) => [
      `${code(word)} <small>${escaped(status)}</small>`,
      prose(message),
    ]);
}

/** Headers of requests: that of the key, and each that a call takes. */
export function requestHeaderTerms(document: OpenapiDocument): [string, string][] {
  const { paths, components } = document;
  const keys = Object.values(components.securitySchemes).map(
    ({ name, description }): [string, string] => [code(name), prose(description)],
  );
  const headers = allCalls(paths)
    .flatMap(({ operation }) => operation.parameters ?? [])
    .filter((parameter) => parameter.in === 'header')
    .map((parameter) => [parameter.name, parameterTerm(parameter)] as const);
  return [...keys, ...new Map(headers).values()];
}

export const answerHeaderTerms = ({ components }: OpenapiDocument): [string, string][] =>
  Object.entries(components.headers).map(([name, { description, schema }]) => [
    `<span id="${headerId(name)}">${code(name)}</span> <small>${typeOf(schema)}</small>`,
    prose(description),
  ]);
