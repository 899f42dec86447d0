/** The patterns of submissions.yaml: `*` stands for any characters of one name, `{a,b}` for one of several texts. */

const MOST_ALTERNATIVES = 200;

/** Null if its braces are not balanced, or stand for too many texts. */
export function compilePattern(pattern: string): ((path: string) => boolean) | null {
  const texts = expandBraces(pattern);
  return texts === null ? null : (path) => texts.some((text) => matchesAbove(text, path));
}

/** A pattern also matches everything below what it matches. */
function matchesAbove(pattern: string, path: string): boolean {
  const patterns = pattern.replace(/\/$/, '').split('/');
  const names = path.split('/');
  return (
    patterns.length <= names.length &&
    patterns.every((part, i) => matchesName(part, names[i] ?? ''))
  );
}

/** Takes at most length times length steps: only the last `*` is ever tried again. */
function matchesName(pattern: string, name: string): boolean {
  let at = 0;
  let star = -1;
  let star_at = 0;
  let i = 0;
  while (i < name.length) {
    if (pattern[at] === '*') {
      star = at++;
      star_at = i;
    } else if (pattern[at] === name[i]) {
      at++;
      i++;
    } else if (star >= 0) {
      at = star + 1;
      i = ++star_at;
    } else {
      return false;
    }
  }
  while (pattern[at] === '*') at++;
  return at === pattern.length;
}

function expandBraces(pattern: string): string[] | null {
  let done: string[] = [''];
  let rest = pattern;
  for (let open = rest.indexOf('{'); open >= 0; open = rest.indexOf('{')) {
    const close = rest.indexOf('}', open);
    const inside = rest.slice(open + 1, close);
    if (close < 0 || inside.includes('{') || rest.slice(0, open).includes('}')) return null;
    const before = rest.slice(0, open);
    const choices = inside.split(',');
    if (done.length * choices.length > MOST_ALTERNATIVES) return null;
    done = done.flatMap((text) => choices.map((choice) => text + before + choice));
    rest = rest.slice(close + 1);
  }
  return rest.includes('}') ? null : done.map((text) => text + rest);
}
