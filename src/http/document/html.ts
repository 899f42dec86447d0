/** Text as HTML. */

export const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');

export const code = (text: string): string => `<code>${escaped(text)}</code>`;

/** A description: what is in backticks is code. */
export const prose = (text: string): string =>
  escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>');

/** A block that scrolls by itself, with the keyboard, too. */
export const block = (text: string): string =>
  `<pre tabindex="0"><code>${escaped(text)}</code></pre>`;

export const link = (id: string, text: string): string => `<a href="#${id}">${escaped(text)}</a>`;

/** A list of terms; what both have is HTML. */
export const terms = (items: readonly (readonly [term: string, what: string])[]): string =>
  `<dl>${items.map(([term, what]) => `<dt>${term}</dt><dd>${what}</dd>`).join('\n')}</dl>`;

/** Closed until it is asked for. */
export const details = (summary: string, content: string): string =>
  `<details><summary>${escaped(summary)}</summary>\n${content}\n</details>`;

/** The part of an anchor for any name: letters, digits and hyphens. */
export const slug = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
