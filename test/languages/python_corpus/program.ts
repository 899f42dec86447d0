/** What the corpus is made of: a family is written once and multiplied. */

export type PythonProgram = { name: string; code: string; stdin?: string; args?: string[] };

export const family = (name: string, sources: Record<string, string>): PythonProgram[] =>
  Object.entries(sources).map(([key, code]) => ({ name: `${name}: ${key}`, code }));

/** The same source with each value in its place. */
export const each = (name: string, values: readonly string[], code: (value: string) => string) =>
  values.map((value) => ({ name: `${name}: ${value}`, code: code(value) }));
