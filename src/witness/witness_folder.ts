/**
 * What a witness keeps in its folder:
 *
 *   key               its name and the seed of its key, made at the first start
 *   lock              held by the process that uses the folder
 *   HASH.checkpoint   for each origin (HASH is its SHA-256) the note that it cosigned last, with the cosignature
 *
 * What must stay true:
 * - A file has its new content on disk, and under its name, before the cosignature is sent: it is written to a temporary
 *   file, flushed, renamed, and the folder is flushed. So a kill or a power cut leaves the old note or the new one.
 * - A note in a file carries the witness's own cosignature. A file that does not is damaged, or not ours, and the witness
 *   cosigns nothing for that origin: it cannot know which tree it cosigned.
 * - One process uses the folder. The lock is SQLite's, because Node has no file locks: the kernel releases it when the
 *   process ends, however it ends, and it holds across containers that share the folder.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { NOTHING_YET, type Witnessed } from '../proof/addition.ts';
import { parseCheckpoint } from '../proof/checkpoint.ts';
import { sha256 } from '../proof/merkle.ts';
import {
  BadNote,
  decode,
  isKeyName,
  type Note,
  NoteSigner,
  noteText,
  parseNote,
  signatureBy,
  WITNESS_KEY,
} from '../proof/note.ts';

const SUFFIX = '.checkpoint';
const SEED_BYTES = 32;

/** The folder cannot be used; the message says why, and what to do. */
export class BadWitnessFolder extends Error {}

export class WitnessFolder {
  readonly signer: NoteSigner;
  readonly #path: string;
  readonly #lock: DatabaseSync;

  private constructor(path: string, lock: DatabaseSync, signer: NoteSigner) {
    this.#path = path;
    this.#lock = lock;
    this.signer = signer;
  }

  /** `name`: the name of the key, which the first start needs. */
  static async open(path: string, name: string | null): Promise<WitnessFolder> {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const lock = takeLock(join(path, 'lock'));
    try {
      const folder = new WitnessFolder(path, lock, await findSigner(path, name));
      for (const file of await readdir(path)) if (file.endsWith(SUFFIX)) await folder.#read(file);
      return folder;
    } catch (error) {
      lock.close();
      throw error;
    }
  }

  /** The tree of this origin that was cosigned last. */
  async last(origin: string): Promise<Witnessed> {
    const checkpoint = await this.#read(fileOf(origin));
    if (!checkpoint) return NOTHING_YET;
    if (checkpoint.origin !== origin) throw this.#damaged(fileOf(origin));
    return checkpoint;
  }

  /** Returns when the note is on disk. The caller sees to it that an origin has one call at a time. */
  async put(origin: string, cosigned: Note): Promise<void> {
    await replaceFile(this.#path, fileOf(origin), noteText(cosigned));
  }

  close(): void {
    this.#lock.close();
  }

  async #read(file: string) {
    const text = await readIfThere(join(this.#path, file));
    if (text === null) return null;
    try {
      const note = parseNote(text);
      if (signatureBy(note, this.signer.verifier)) return parseCheckpoint(note.text);
    } catch (error) {
      if (!(error instanceof BadNote)) throw error;
    }
    throw this.#damaged(file);
  }

  #damaged(file: string): BadWitnessFolder {
    return new BadWitnessFolder(
      `${join(this.#path, file)} is damaged, or another witness wrote it: it does not say which tree this witness cosigned last; start a witness with a new key in a new folder`,
    );
  }
}

const fileOf = (origin: string) => `${sha256(Buffer.from(origin)).toString('hex')}${SUFFIX}`;

function takeLock(path: string): DatabaseSync {
  const lock = new DatabaseSync(path, { timeout: 0 });
  try {
    // Never committed: the transaction, and with it the lock, ends with the process.
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    throw new BadWitnessFolder(
      `${path} cannot be locked (${(error as Error).message}): stop the witness that uses this folder`,
    );
  }
}

async function findSigner(path: string, name: string | null): Promise<NoteSigner> {
  const found = await readIfThere(join(path, 'key'));
  const made = found ?? (await makeKey(path, name));
  const [own, encoded, ...more] = made.split('\n');
  const seed = decode(encoded ?? '');
  if (!own || !isKeyName(own) || seed?.length !== SEED_BYTES || more.join() !== '')
    throw new BadWitnessFolder(`${join(path, 'key')} is damaged: restore it, or use a new folder`);
  if (name !== null && name !== own)
    throw new BadWitnessFolder(
      `the key in ${path} has the name ${own}, not ${name}: a new name needs a new folder`,
    );
  return new NoteSigner(own, WITNESS_KEY, seed);
}

async function makeKey(path: string, name: string | null): Promise<string> {
  if (name === null || !isKeyName(name))
    throw new BadWitnessFolder(
      'the first start needs a name for the key, without spaces and plus signs, such as witness.example.org',
    );
  const text = `${name}\n${randomBytes(SEED_BYTES).toString('base64')}\n`;
  await replaceFile(path, 'key', text);
  return text;
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

async function replaceFile(folder: string, file: string, text: string): Promise<void> {
  const made = join(folder, `${file}.new`);
  const handle = await open(made, 'w', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(made, join(folder, file));
  const folderHandle = await open(folder, 'r');
  try {
    await folderHandle.sync();
  } finally {
    await folderHandle.close();
  }
}
