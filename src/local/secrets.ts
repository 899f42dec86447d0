/**
 * The secrets of a local installation: generated once, stored in a file that only the owner of the folder can read.
 *
 * A mark says that the seal key was made here, and that the embedded database has not used it. It is a file of its own, so that no
 * copy of the secrets has it, and is made before the secrets: with a start that is killed at any moment, either both are there, or
 * no secrets. Its name has a digest of the key, so that it says nothing of other secrets that are put in the place of these.
 *
 * A claim names the one database whose log the key signs. It is made once, beside the mark and before the log begins. With
 * neither, the key came from elsewhere, or is of an older version.
 */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Role } from '../config.ts';
import { Fault } from '../fault.ts';
import { ROLES } from './roles.ts';
import { synced } from './upgrade_folder.ts';

export type LocalSecrets = {
  postgres_password: string;
  role_passwords: Record<Role, string>;
  /** Used for the variables of the same names when the environment does not set them. */
  RUNLEDGER_WEBHOOK_KEYS: string;
  RUNLEDGER_DIGEST_KEY: string;
  RUNLEDGER_SEAL_KEY: string;
};

/** `for_new_data`: secrets that are made now have the mark. */
export async function localSecrets(
  state_dir: string,
  { for_new_data = false } = {},
): Promise<LocalSecrets> {
  await mkdir(state_dir, { recursive: true, mode: 0o700 });
  const path = secretsPath(state_dir);
  const found = await read(path);
  if (found) return found;
  const secrets = make();
  if (for_new_data)
    await writeFile(beside(state_dir, secrets, 'new'), '', { mode: 0o600, flush: true });
  await createOnce(path, `${JSON.stringify(secrets, null, 2)}\n`);
  return (await read(path))!;
}

/** Whole or not at all. If two processes do it at the same time, the first one's stays: unlike rename, link never replaces a file. */
async function createOnce(path: string, text: string): Promise<void> {
  // No name that a killed process can have left: in a container, each start has the same PID.
  const made = `${path}.${randomBytes(8).toString('hex')}`;
  try {
    await writeFile(made, text, { mode: 0o600, flag: 'wx', flush: true });
    await link(made, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await synced(dirname(path));
  } finally {
    await rm(made, { force: true });
  }
}

/** Null if none were generated. */
export const readLocalSecrets = (state_dir: string): Promise<LocalSecrets | null> =>
  read(secretsPath(state_dir));

/** Does the folder have a seal key that a log may have used? */
export async function hasUsedKey(state_dir: string): Promise<boolean> {
  const secrets = await readLocalSecrets(state_dir);
  if (!secrets?.RUNLEDGER_SEAL_KEY) return false;
  return (
    !existsSync(beside(state_dir, secrets, 'new')) ||
    existsSync(beside(state_dir, secrets, 'database'))
  );
}

/** Does the key sign the log of this database, and of no other? One that no log has used does from now on. */
export async function claimKey(state_dir: string, database: string): Promise<boolean> {
  const secrets = await readLocalSecrets(state_dir);
  if (!secrets?.RUNLEDGER_SEAL_KEY) return true;
  const claim = beside(state_dir, secrets, 'database');
  // The mark first: the start that removes it has made the claim before.
  if (existsSync(beside(state_dir, secrets, 'new'))) await createOnce(claim, `${database}\n`);
  return existsSync(claim) && (await readFile(claim, 'utf8')).trim() === database;
}

const EMBEDDED = 'embedded';

/**
 * The embedded database is about to use the key. False if that of another has begun to since the secrets were made. `restored`:
 * its log is one of its own, whatever the folder says.
 */
export async function markUsed(state_dir: string, { restored = false } = {}): Promise<boolean> {
  const secrets = await readLocalSecrets(state_dir);
  const is_marked = secrets?.RUNLEDGER_SEAL_KEY && existsSync(beside(state_dir, secrets, 'new'));
  if (is_marked && !restored && !(await claimKey(state_dir, EMBEDDED))) return false;
  for (const name of await readdir(state_dir))
    if (MARK.test(name)) await rm(join(state_dir, name), { force: true });
  return true;
}

const MARK = /^secrets\.[0-9a-f]{16}\.new$/;

function beside(
  state_dir: string,
  { RUNLEDGER_SEAL_KEY }: LocalSecrets,
  what: 'new' | 'database',
): string {
  const digest = createHash('sha256').update(RUNLEDGER_SEAL_KEY).digest('hex');
  return join(state_dir, `secrets.${digest.slice(0, 16)}.${what}`);
}

/** It stands in a statement, and in an address. */
const PASSWORD = /^[0-9a-f]{16,128}$/;

export const secretsPath = (state_dir: string) => join(state_dir, 'secrets.json');

async function read(path: string): Promise<LocalSecrets | null> {
  try {
    const secrets: LocalSecrets = JSON.parse(await readFile(path, 'utf8'));
    for (const [role, password] of Object.entries(secrets.role_passwords ?? {}))
      if (!PASSWORD.test(password))
        throw new Fault(
          `${path}: role_passwords.${role} is not 16 to 128 hexadecimal digits`,
          'make one with `openssl rand -hex 32`',
        );
    return secrets;
  } catch (error) {
    if (error instanceof Fault) throw error;
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    // The file may be well: it must not be replaced for want of rights, or while its disk is away.
    if (error instanceof SyntaxError)
      throw new Fault(`${path} is damaged: ${message}`, 'restore it from a copy');
    if (code === 'EACCES' || code === 'EPERM')
      throw new Fault(message, 'run this as the user who owns the folder');
    throw error;
  }
}

function make(): LocalSecrets {
  const password = () => randomBytes(16).toString('hex');
  const key = () => randomBytes(32).toString('base64');
  return {
    postgres_password: password(),
    role_passwords: Object.fromEntries(ROLES.map((role) => [role, password()])) as Record<
      Role,
      string
    >,
    RUNLEDGER_WEBHOOK_KEYS: `k1:${key()}`,
    RUNLEDGER_DIGEST_KEY: key(),
    RUNLEDGER_SEAL_KEY: key(),
  };
}
