/** What others wrote is printed without what would control a terminal or turn its text around. */

/** In one line. */
export const printable = (text: string): string =>
  text.replace(/[\p{Cc}\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, shown);

/** Its lines and tabs stay. */
export const printableText = (text: string): string => text.replace(/[^\t\n]+/g, printable);

function shown(sign: string): string {
  return `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
