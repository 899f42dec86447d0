/**
 * Splits a string of arguments as a POSIX shell and the tools that check packages do: white space separates, and quotes and
 * backslashes keep it in a word. What a shell would replace by something else is no part of the format.
 */
export type ShellWords = { words: string[]; problem?: undefined } | { problem: string };

const REPLACED = /[$`]/;

export function shellWords(text: string): ShellWords {
  const words: string[] = [];
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!;
    if (quote === "'") {
      if (character === "'") quote = null;
      else word += character;
    } else if (character === '\\') {
      const next = text[++i];
      if (next === undefined) return { problem: OPEN };
      const is_kept = quote === '"' && !/["\\$`]/.test(next);
      word = (word ?? '') + (is_kept ? character : '') + next;
    } else if (REPLACED.test(character)) {
      return { problem: 'a $ or ` outside of single quotes is not supported' };
    } else if (character === quote) {
      quote = null;
    } else if (quote === null && (character === '"' || character === "'")) {
      quote = character;
      word ??= '';
    } else if (quote === null && /\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== null) return { problem: OPEN };
  return { words: word === null ? words : [...words, word] };
}

const OPEN = 'a quote or an escape is not closed';
