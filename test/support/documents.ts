/** The documents at the top of the clone, and the commands in them. */
import { readdirSync, readFileSync } from 'node:fs';

export type Document = { readonly name: string; readonly text: string };

export const documents = (): Document[] =>
  readdirSync('.')
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ name, text: readFileSync(name, 'utf8') }));

/** The lines of the shell blocks, without comments. A line goes on where a backslash or an open quote says so. */
export function shellLines({ text }: Document): string[] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map((block) => block[1]!);
  return blocks
    .flatMap((block) =>
      block
        .replaceAll('\\\n', ' ')
        .replace(/'[^']*'/g, (quoted) => quoted.replaceAll('\n', ' '))
        .split('\n'),
    )
    .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
    .filter((line) => line !== '');
}
