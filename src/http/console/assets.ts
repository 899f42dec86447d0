/** The scripts and styles of the console: our own, and uPlot's as its package has them. There is nothing to build. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { ConsoleCall } from './console_parts.ts';

const SCRIPT = 'text/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';

const own = (name: string) => new URL(`client/${name}`, import.meta.url);
const uplot = (name: string) => createRequire(import.meta.url).resolve(`uplot/dist/${name}`);

const FILES = [
  { name: 'console.css', type: STYLE, file: () => own('console.css') },
  { name: 'now.js', type: SCRIPT, file: () => own('now.js') },
  { name: 'plots.js', type: SCRIPT, file: () => own('plots.js') },
  { name: 'uplot.js', type: SCRIPT, file: () => uplot('uPlot.esm.js') },
  { name: 'uplot.css', type: STYLE, file: () => uplot('uPlot.min.css') },
];

/** Read when it is first asked for. A browser keeps it, and asks whether it has changed. */
export const assets: readonly ConsoleCall[] = FILES.map(({ name, type, file }) => {
  let kept: { body: Uint8Array; etag: string } | undefined;
  return {
    path: `/assets/${name}`,
    kind: 'open',
    async handler(_, { req }): Promise<Answer> {
      kept ??= read(file());
      const { body, etag } = kept;
      const headers = { 'Cache-Control': 'no-cache', ETag: etag };
      if (namesTag(req.headers['if-none-match'], etag))
        return { status: STATUS.not_modified, headers };
      return { status: STATUS.ok, type, headers, body };
    },
  };
});

/** A proxy that compresses writes the tag as a weak one. */
const namesTag = (header = '', etag: string): boolean =>
  header.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);

function read(file: string | URL) {
  const body = readFileSync(file);
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url')}"` };
}
