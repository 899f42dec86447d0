/** How the file system of a folder is mounted. */
import { readFile } from 'node:fs/promises';

/** `mountinfo`: as the kernel lists the mounts; the last of those that cover the folder is the one in force. */
export async function isNoexec(
  folder: string,
  mountinfo = '/proc/self/mountinfo',
): Promise<boolean> {
  const text = await readFile(mountinfo, 'utf8').catch(() => '');
  const covering = text
    .split('\n')
    .map((line) => line.split(' '))
    .map(([, , , , at = '', options = '']) => ({ at: unescaped(at), options: options.split(',') }))
    .filter(({ at }) => at !== '' && `${folder}/`.startsWith(at.endsWith('/') ? at : `${at}/`));
  const longest = Math.max(...covering.map(({ at }) => at.length));
  return covering.findLast(({ at }) => at.length === longest)?.options.includes('noexec') ?? false;
}

/** Spaces and line breaks are octal numbers there. */
const unescaped = (path: string) =>
  path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
