/**
 * The fields that a deployment does not accept (RUNLEDGER_FORBIDDEN_FIELDS): in the submission itself, in its tests, and in the
 * programs that judge it. A field that may be sent as base64 instead is forbidden in both forms.
 */
import { join } from '../wire/json_text.ts';
import type { Schema } from './openapi_types.ts';

/** The fields of a submission that hold objects with fields of the same names. */
const HOLDERS = ['tests', 'checker', 'interactor'] as const;

const namesOf = (forbidden: readonly string[]) =>
  forbidden.flatMap((name) => [name, `${name}_base64`]);

/** Where a submission has such fields. It may be anything, but has no nulls. */
export function forbiddenPaths(forbidden: readonly string[], value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const names = namesOf(forbidden);
  const within = (item: unknown, at: string): string[] =>
    typeof item !== 'object' || item === null
      ? []
      : names.filter((name) => Object.hasOwn(item, name)).map((name) => join(at, name));
  const held = HOLDERS.flatMap((holder) => {
    const inner = (value as Record<string, unknown>)[holder];
    return Array.isArray(inner)
      ? inner.flatMap((item, n) => within(item, `${holder}[${n}]`))
      : within(inner, holder);
  });
  return [...within(value, ''), ...held];
}

/** Takes them out of the JSON Schema of a submission. */
export function removeForbidden(forbidden: readonly string[], schema: Schema): void {
  const held = HOLDERS.map((holder) => schema.properties![holder]!);
  for (const { properties } of [schema, ...held.map((each) => each.items ?? each)])
    for (const name of namesOf(forbidden)) delete properties![name];
}
