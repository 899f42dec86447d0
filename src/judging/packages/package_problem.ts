/** The one error for a package that cannot be read, or asks for something that is not supported. */
export class PackageProblem extends Error {
  override name = 'PackageProblem';
  /** the file or folder of the package, or ARCHIVE */
  readonly item: string;
  /** without the item; one line */
  readonly problem: string;

  /** The message is one line that names the item. */
  constructor(item: string, problem: string) {
    super(`${inOneLine(item)}: ${inOneLine(problem)}`);
    this.item = item;
    this.problem = inOneLine(problem);
  }

  /** The item in one line. */
  get shown_item(): string {
    return inOneLine(this.item);
  }
}

/** A program in a language that is not supported. */
export class UnknownLanguage extends PackageProblem {}

/** The item of a problem with the package as a whole. */
export const ARCHIVE = 'the package';

const MOST_CHARACTERS = 300;

/** Control characters and lone surrogates become visible, so that no name can forge a line of a log or an answer. */
function inOneLine(text: string): string {
  const shown = text
    .toWellFormed()
    .replace(
      /[\p{C}\p{Zl}\p{Zp}]/gu,
      (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
    );
  return shown.length <= MOST_CHARACTERS
    ? shown
    : `${shown.slice(0, MOST_CHARACTERS).toWellFormed()}...`;
}
