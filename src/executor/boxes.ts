/**
 * What a judged run asks of the sandbox beyond a plain one, by means of plain runs: input and other files from the store,
 * files that are kept of the work folder, and two programs that talk with each other. Until the launcher does it.
 */
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { matchesPattern } from '../judging/paths.ts';
import type { LeftFile } from '../domain/judged_record.ts';
import { CONTENT_PREFIX } from './compile_cache.ts';
import type { BoxRequest, BoxStream, RunReport, Sandbox } from './sandbox.ts';

export type JudgedRequest = BoxRequest & {
  /** a file of the store, instead of `stdin` */
  stdin_key?: string;
  /** empty folders of the work folder */
  folders?: readonly string[];
  /** files of the work folder to keep when the run ends, in whatever way */
  keep?: { patterns: readonly string[]; max_bytes: number; max_files: number };
};
export type JudgedReport = RunReport & { kept?: readonly LeftFile[]; keep_refused?: string };

export type PairReport = {
  program: JudgedReport;
  interactor: JudgedReport;
  program_ended_first: boolean;
  transcript: Uint8Array;
};

export type Boxes = {
  run(request: JudgedRequest, options?: { signal?: AbortSignal }): Promise<JudgedReport>;
  /** Each one's stdout is the other's stdin. */
  runPair(
    program: JudgedRequest,
    interactor: JudgedRequest,
    options: { signal?: AbortSignal; transcript_bytes: number },
  ): Promise<PairReport>;
};

const KEPT = '.kept';
/** Copies the files that fit the patterns, with their names in order, and the exit code. */
const KEEPING = `n=0; p=$1; shift; "$@"; echo $? > ${KEPT}/code; for f in $p; do
  [ -f "$f" ] && [ ! -L "$f" ] && n=$((n+1)) && cat "$f" > ${KEPT}/$n && echo "$f" >> ${KEPT}/names; done; exit 0`;

export function boxesOf(sandbox: Pick<Sandbox, 'run' | 'open'>, store: string): Boxes {
  return {
    async run(request, options) {
      const { stdin_key, keep, folders, ...plain } = request;
      const from_store = plain.load?.some(({ key }) => key.startsWith(CONTENT_PREFIX));
      if (stdin_key === undefined && keep === undefined && !from_store)
        return sandbox.run(plain, options);
      const whole = await withContents(request, store);
      if (keep === undefined) return sandbox.run(whole, options);
      return runAndKeep(sandbox, whole, keep, store, options);
    },
    async runPair(program, interactor, { transcript_bytes, ...options }) {
      const requests = [await withContents(program, store), await withContents(interactor, store)];
      const [left, right] = await Promise.all(
        requests.map((request) => sandbox.open(request, options)),
      );
      return await talk(left!, right!, transcript_bytes);
    },
  };
}

async function withContents(request: JudgedRequest, store: string): Promise<BoxRequest> {
  const { stdin_key, keep: _keep, load = [], folders = [], ...rest } = request;
  const markers = folders.map((path) => ({ path: `${path}/.folder`, bytes: new Uint8Array() }));
  const moved = load.filter(({ key }) => key.startsWith(CONTENT_PREFIX));
  const files = await Promise.all(
    moved.map(async ({ key, at }) => ({ path: at.slice(1), bytes: await readFile(join(store, key)) })),
  );
  const movedTo = new Map(moved.map(({ at }) => [at, `/box${at}`]));
  return {
    ...rest,
    argv: rest.argv.map((argument) => movedTo.get(argument) ?? argument),
    files: [...rest.files, ...files, ...markers],
    load: load.filter(({ key }) => !key.startsWith(CONTENT_PREFIX)),
    stdin: stdin_key === undefined ? rest.stdin : await readFile(join(store, stdin_key)),
  };
}

let saved = 0;

async function runAndKeep(
  sandbox: Pick<Sandbox, 'run'>,
  request: BoxRequest,
  { patterns, max_bytes, max_files }: NonNullable<JudgedRequest['keep']>,
  store: string,
  options?: { signal?: AbortSignal },
): Promise<JudgedReport> {
  const key = `kept-${process.pid}-${++saved}`;
  const { zygote: _zygote, ...plain } = request;
  const report = await sandbox.run(
    {
      ...plain,
      argv: ['/bin/sh', '-c', KEEPING, 'sh', patterns.join(' '), ...request.argv],
      files: [...request.files, { path: `${KEPT}/.folder`, bytes: new Uint8Array() }],
      save: { key, paths: [KEPT], max_bytes, max_files: max_files + 3 },
    },
    options,
  );
  if (report.saved === undefined) {
    const { save_refused: keep_refused } = report;
    return { ...report, kept: [], ...(keep_refused !== undefined && { keep_refused }) };
  }
  const folder = join(store, key, KEPT);
  const exit_code = Number(await readFile(join(folder, 'code'), 'utf8'));
  const has_names = (await readdir(folder)).includes('names');
  const names = has_names ? (await readFile(join(folder, 'names'), 'utf8')).trimEnd().split('\n') : [];
  const kept = await Promise.all(
    names.map(async (path, at) => ({ path, bytes: await readFile(join(folder, `${at + 1}`)) })),
  );
  await rm(join(store, key), { recursive: true, force: true });
  const fits = ({ path }: LeftFile) => patterns.some((pattern) => matchesPattern(pattern, path));
  return { ...report, exit_code, kept: kept.filter(fits) };
}

async function talk(left: BoxStream, right: BoxStream, most: number): Promise<PairReport> {
  const said: Buffer[] = [];
  const outputs = new Map<BoxStream, Buffer[]>([
    [left, []],
    [right, []],
  ]);
  const ends: BoxStream[] = [];
  const connect = (from: BoxStream, to: BoxStream) => {
    from.on('data', (bytes: Buffer) => {
      said.push(bytes);
      outputs.get(from)!.push(bytes);
      to.write(bytes);
    });
    from.once('end', () => {
      ends.push(from);
      to.end();
    });
  };
  connect(left, right);
  connect(right, left);
  const [program, interactor] = await Promise.all([left.ended, right.ended]);
  const stdout = Buffer.concat(outputs.get(left)!);
  return {
    program: { ...program, stdout },
    interactor,
    program_ended_first: ends[0] === left,
    transcript: Buffer.concat(said).subarray(0, most),
  };
}
