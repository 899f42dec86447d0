/**
 * HTML by templates that escape: a text is text on the page, whatever is in it, and what would control the page's text is made
 * visible. Only what `html` made is taken as it is.
 */
import { printable, printableText } from '../../domain/printable.ts';
import { escaped } from '../document/html.ts';

export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Nothing is shown for null, undefined and false. */
export type Shown = Html | string | number | null | undefined | false | readonly Shown[];

/** Values stand in texts, and in attributes between double quotes. */
export function html(parts: TemplateStringsArray, ...values: readonly Shown[]): Html {
  return new Html(parts.map((part, n) => part + markupOf(values[n])).join(''));
}

/** The value of a form's field, which is sent back. So signs that turn text around stay in it, as character references. */
export const fieldValue = (text: string): Html =>
  new Html(
    escaped(text).replace(/[^\t\n\P{C}]/gu, (sign) =>
      /\p{Cc}/u.test(sign) ? printable(sign) : `&#${sign.codePointAt(0)};`,
    ),
  );

function markupOf(value: Shown): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(markupOf).join('');
  return escaped(printableText(String(value)));
}
