/** The parts of an OpenAPI document that this service writes, and that the page reads. */

export type OpenapiDocument = {
  openapi: string;
  info: { title: string; version: string; contact: object; license: object; description: string };
  servers: readonly { url: string; description: string }[];
  tags: readonly { name: string; description: string }[];
  /** by path and by method in lower case */
  paths: Record<string, Record<string, OperationObject>>;
  components: {
    securitySchemes: Record<
      string,
      { type: string; in: string; name: string; description: string }
    >;
    schemas: Record<string, Schema>;
    headers: Record<string, HeaderObject>;
  };
};

export type OperationObject = {
  operationId: string;
  tags: readonly string[];
  summary: string;
  description: string;
  /** an empty list: the call needs no key */
  security: readonly object[];
  parameters?: readonly ParameterObject[];
  requestBody?: { required: true; description?: string; content: Record<string, Content> };
  responses: Record<string, ResponseObject>;
};

export type ParameterObject = {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: true;
  description: string;
  schema: Schema;
  /** of an array: its items are in one value, separated by commas */
  explode?: false;
  example: string | number | readonly string[];
};

export type ResponseObject = {
  description: string;
  headers: Record<string, { $ref: string }>;
  content?: Record<string, Content>;
};

export type Content = { schema: Schema; examples?: Record<string, Example> };
export type Example = { summary?: string; value: unknown };
export type HeaderObject = { description: string; schema: Schema };

/** JSON Schema, as far as the schemas of this service use it. */
export type Schema = {
  $ref?: string;
  description?: string;
  type?: string | string[];
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: Schema[];
  allOf?: object[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  format?: string;
  pattern?: string;
  contentEncoding?: string;
  minimum?: number;
  maximum?: number;
  default?: unknown;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
};

const REFERENCE = /^#\/components\/\w+\//;

/** "#/components/schemas/Result" -> "Result" */
export const nameOf = (reference: string): string => reference.replace(REFERENCE, '');
