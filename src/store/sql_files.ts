/** The files of sql/, and the digests of them that a database stores. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

export const SQL_DIR = new URL('../../sql/', import.meta.url);

/** In the order of their names. */
export async function sqlFiles(folder: string): Promise<{ name: string; text: string }[]> {
  const directory = new URL(`${folder}/`, SQL_DIR);
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => ({ name, text: await readFile(new URL(name, directory), 'utf8') })),
  );
}

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
