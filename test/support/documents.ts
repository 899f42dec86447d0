/** The documents at the top of the clone, and the commands in them. */
import { readdirSync, readFileSync } from 'node:fs';

export type Document = { readonly name: string; readonly text: string };

export const documents = (): Document[] =>
  readdirSync('.')
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ name, text: readFileSync(name, 'utf8') }));

/** The lines of the shell blocks, without comments. A line goes on where a backslash or an open quote says so. */
export const shellLines = ({ text }: Document): string[] => shellBlocks(text).flat();

/** The lines of each shell block of one section. */
export function sectionLines(name: string, heading: string): string[][] {
  const sections = readFileSync(name, 'utf8').split(/^(?=## )/m);
  return shellBlocks(sections.find((section) => section.startsWith(`## ${heading}\n`)) ?? '');
}

function shellBlocks(text: string): string[][] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map((block) => block[1]!);
  return blocks.map((block) =>
    block
      .replaceAll('\\\n', ' ')
      .replace(/'[^']*'/g, (quoted) => quoted.replaceAll('\n', ' '))
      .split('\n')
      .map((line) => line.replace(/(^|\s)#.*$/, '').trim())
      .filter((line) => line !== ''),
  );
}
