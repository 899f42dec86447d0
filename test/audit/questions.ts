/** The questions of AUDIT.md, with the queries that are printed below them. */
import { readFileSync } from 'node:fs';

export const PAGE = readFileSync(new URL('../../AUDIT.md', import.meta.url), 'utf8');

export type Question = { title: string; queries: string[] };

export const questions: readonly Question[] = PAGE.split(/^### (?=\d+\. )/m)
  .slice(1)
  .map((section) => ({
    title: section.slice(0, section.indexOf('\n')),
    queries: [...section.split(/^## /m)[0]!.matchAll(/```sql\n([\s\S]*?)```/g)].map((match) =>
      match[1]!.trim().replace(/;$/, ''),
    ),
  }));

/** The query with psql's variables filled in. */
export function filledIn(query: string, variables: Readonly<Record<string, string>>): string {
  return query.replaceAll(/:'([a-z_]+)'/g, (_, name: string) => {
    const value = variables[name];
    if (value === undefined) throw new Error(`no value for :'${name}'`);
    return `'${value}'`;
  });
}
