/**
 * The constants of a package: `{{name}}` in its programs and in test_group.yaml stands for the value that problem.yaml has
 * for the name. A short file with many of them can stand for a long one, so the length is counted before it is built.
 */
export type Constants = ReadonlyMap<string, string>;

export const NO_CONSTANTS: Constants = new Map();

/** Works on bytes, because a source may have any encoding. Null if there would be more than `most_bytes`. */
export function replaceConstants(
  bytes: Uint8Array,
  constants: Constants,
  most_bytes: number,
): Uint8Array | null {
  // Only the values that the file names: a package has thousands of files, and may have thousands of constants.
  const values = new Map<string, string | undefined>();
  const replacementOf = (name: string) => {
    if (!values.has(name)) values.set(name, latin1Of(constants.get(name)));
    return values.get(name);
  };
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  let size = text.length;
  for (const [token, name] of text.matchAll(TOKEN)) {
    const value = replacementOf(name!);
    if (value !== undefined) size += value.length - token.length;
  }
  if (size > most_bytes) return null;
  const replaced = text.replace(TOKEN, (token, name: string) => replacementOf(name) ?? token);
  return Buffer.from(replaced, 'latin1');
}

function latin1Of(value: string | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value).toString('latin1');
}

const TOKEN = /\{\{([a-zA-Z_][a-zA-Z0-9_]*)\}\}/g;
