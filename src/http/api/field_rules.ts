/**
 * Rules between the fields of one object of a request, each written once. `ruled` makes a schema obey them, and states them in
 * JSON Schema for the OpenAPI document: a request that fits the document breaks none of them. A field that is null is absent.
 */
import * as v from 'valibot';

export type FieldRule =
  /** may not be given together with any of the others; `if_true`: unless it is false */
  | { field: string; not_with: readonly string[]; because?: string; if_true?: true }
  /** means something only together with one of the others */
  | { field: string; only_with: readonly string[] }
  /** is incomplete without the other */
  | { field: string; needs: string }
  /** at least one of the two is there */
  | { field: string; or: string };

type Raw = Record<string, unknown>;

export function ruled<S extends v.GenericSchema>(schema: S, rules: readonly FieldRule[]) {
  return v.pipe(
    schema,
    v.rawCheck(({ dataset, addIssue }) => {
      const input = dataset.value as unknown;
      if (typeof input !== 'object' || input === null || Array.isArray(input)) return;
      for (const { key, message } of brokenRules(rules, input as Raw)) {
        const value = (input as Raw)[key];
        const item = { type: 'object', origin: 'value', input: input as Raw, key, value } as const;
        addIssue({ message, path: [item] });
      }
    }),
    v.metadata(wordsOf(rules)),
  );
}

function brokenRules(rules: readonly FieldRule[], input: Raw): { key: string; message: string }[] {
  const has = (name: string) => input[name] !== undefined && input[name] !== null;
  return rules.flatMap((rule) => {
    const { field } = rule;
    if ('or' in rule) {
      if (has(field) || has(rule.or)) return [];
      return [{ key: field, message: `is required, or ${rule.or}` }];
    }
    if (!has(field)) return [];
    if ('needs' in rule) {
      return has(rule.needs)
        ? []
        : [{ key: rule.needs, message: `is required when ${field} is set` }];
    }
    if ('only_with' in rule) {
      if (rule.only_with.some(has)) return [];
      return [{ key: field, message: `is only for ${rule.only_with.join(' or ')}` }];
    }
    const other = rule.not_with.find(has);
    if (other === undefined || (rule.if_true && input[field] === false)) return [];
    const because = rule.because ?? 'send one';
    return [{ key: field, message: `is given together with ${other}: ${because}` }];
  });
}

/** What no object has, as JSON Schema: one `not`, because generators of requests filter by it and multiply several others. */
function wordsOf(rules: readonly FieldRule[]): { not?: object } {
  const broken = rules.map((rule) => {
    if ('or' in rule) return without(rule.field, rule.or);
    if ('needs' in rule) return both(given(rule.field), without(rule.needs));
    if ('only_with' in rule) return both(given(rule.field), without(...rule.only_with));
    const others = rule.not_with.map((name) => given(name));
    const field = rule.if_true ? givenTrue(rule.field) : given(rule.field);
    return both(field, others.length === 1 ? others[0]! : { anyOf: others });
  });
  return broken.length === 0 ? {} : { not: { anyOf: broken } };
}

const both = (...schemas: object[]) => ({ allOf: schemas });

/** The field is there, and not null. */
const given = (name: string) => ({
  required: [name],
  properties: { [name]: { not: { type: 'null' } } },
});

/** The field is there, and neither null nor false. */
const givenTrue = (name: string) => ({
  required: [name],
  properties: { [name]: { not: { enum: [null, false] } } },
});

/** Each of these fields is absent or null. */
const without = (...names: string[]) => ({
  properties: Object.fromEntries(names.map((name) => [name, { type: 'null' }])),
});
