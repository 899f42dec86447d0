/**
 * A witness over HTTP (c2sp.org/tlog-witness): POST /add-checkpoint, and for its operator GET /health and GET /metrics.
 *
 * What must stay true: about one origin it decides one request at a time, from reading what it cosigned last to having
 * stored what it cosigns now, and it answers after that. What it cosigns depends on the files; its memory can only make it refuse.
 * It keeps there which tree it has stored last, and signs that tree again without a write: anybody who has a checkpoint can ask for that, and the
 * log's own request must not wait behind the disk for long. If the file has another tree than that, somebody has changed the
 * folder, and nothing is signed. So that none waits long, each connection also has one request in line at most, and one that
 * is gone loses its turn.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { listenOn } from '../listen.ts';
import type { Log } from '../log.ts';
import type { Counter, Metrics } from '../metrics.ts';
import {
  type Addition,
  conflictOf,
  MOST_ADDITION_BYTES,
  parseAddition,
  rejectionOf,
  SIZE_TYPE,
  WITNESS_STATUS,
  type Witnessed,
} from '../proof/addition.ts';
import {
  BadNote,
  MOST_NOTE_BYTES,
  noteText,
  signatureBy,
  signatureLine,
  type VerifierKey,
} from '../proof/note.ts';
import { BadWitnessFolder, type WitnessFolder } from './witness_folder.ts';

export type WitnessOptions = {
  folder: WitnessFolder;
  /** The keys of the logs that it watches; several of one name while a log changes its key. */
  logs: readonly VerifierKey[];
  host: string;
  port: number;
  log: Log;
  metrics: Metrics;
};

export type Witness = { readonly address: string; close(): Promise<void> };

type Answer = { status: number; type?: string; body: string };
/** Whether nobody waits for the answer any more. */
type IsGone = () => boolean;

const TEXT = 'text/plain; charset=utf-8';
const MOST_CONNECTIONS = 1000;
const MOST_HEADER_BYTES = 8 * 1024;
const REQUEST_TIMEOUT_MS = 10_000;
/** Logs send a checkpoint about every ten seconds: an idle connection is kept for longer. */
const KEEP_ALIVE_MS = 95_000;

export async function startWitness(options: WitnessOptions): Promise<Witness> {
  const { host, port, log, metrics } = options;
  const { requests, other_trees } = observeWitness(metrics, options);
  const addCheckpoint = createAddCheckpoint(options, other_trees);
  const inLine = oneOfEachConnection();
  const server = createServer(
    {
      maxHeaderSize: MOST_HEADER_BYTES,
      headersTimeout: REQUEST_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    (req, res) => {
      route(req)
        .then((answer) => send(res, answer))
        .catch((error: Error) => {
          if (isCut(req)) return;
          log.error({ err: error }, 'a request failed');
          send(res, FAILED);
        });
    },
  );
  server.maxConnections = MOST_CONNECTIONS;
  const route = async (req: IncomingMessage): Promise<Answer | null> => {
    const read = { '/health': () => health(options), '/metrics': () => metrics.text() }[req.url!];
    if (read && req.method === 'GET')
      return inLine(req.socket, async () => ({
        status: 200,
        type:
          req.url === '/health' ? 'application/json' : 'text/plain; version=0.0.4; charset=utf-8',
        body: await read(),
      }));
    if (read || req.url !== '/add-checkpoint') return { status: 404, body: 'not found\n' };
    if (req.method !== 'POST') return { status: 405, body: 'add-checkpoint is a POST\n' };
    const answer = await inLine(req.socket, async () => {
      const body = await readBody(req);
      return body ? addCheckpoint(body, () => !req.socket.writable) : TOO_LARGE;
    }).catch((error: Error) => {
      if (!isCut(req)) requests.add({ status: String(FAILED.status) });
      throw error;
    });
    if (answer) requests.add({ status: String(answer.status) });
    return answer;
  };
  await listenOn(server, { host, port, log, remedy: 'choose another one with --listen' });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return {
    address: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        // One on which no request was complete is not idle, and its time limits have ended with the server. What the witness
        // has decided is on the disk.
        setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
      }),
  };
}

const CLOSE_MS = 3_000;

/** Its connection ended before the request did. */
const isCut = (req: IncomingMessage): boolean => req.destroyed && !req.complete;

const FAILED: Answer = { status: 500, body: 'the witness has a problem; see its log\n' };
const TOO_LARGE: Answer = { status: 413, body: 'the request is too large\n' };
const ONE_AT_A_TIME: Answer = {
  status: 503,
  body: 'an earlier request of this connection has no answer yet\n',
};
/** Of a request to add a checkpoint. */
const STATUSES = [
  ...Object.values(WITNESS_STATUS),
  ...[FAILED, TOO_LARGE, ONE_AT_A_TIME].map(({ status }) => status),
];
/** After these the rest of the request was not read. */
const CLOSES: readonly Answer[] = [TOO_LARGE, ONE_AT_A_TIME];
const TOO_LONG: Answer = {
  status: WITNESS_STATUS.malformed,
  body: 'the note has no room for a cosignature: make it shorter\n',
};

/** HTTP allows a client to send its next request before it has the answer. A log has no need to. */
function oneOfEachConnection() {
  const in_line = new WeakSet<Socket>();
  return async <T>(socket: Socket, work: () => Promise<T>): Promise<T | Answer> => {
    if (in_line.has(socket)) return ONE_AT_A_TIME;
    in_line.add(socket);
    try {
      return await work();
    } finally {
      in_line.delete(socket);
    }
  };
}

export function observeWitness(
  metrics: Metrics,
  options: Pick<WitnessOptions, 'folder' | 'logs'>,
): { requests: Counter<'status'>; other_trees: Counter<'origin'> } {
  const requests = metrics.counter(
    'runledger_witness_requests_total',
    'Requests to add a checkpoint, by the status of the answer.',
    ['status'],
  );
  for (const status of STATUSES) requests.add({ status: String(status) }, 0);
  const other_trees = metrics.counter(
    'runledger_witness_other_trees_total',
    'Signed checkpoints of another tree than the one of their size that was cosigned, by origin: evidence of a fork.',
    ['origin'],
  );
  for (const origin of originsOf(options)) other_trees.add({ origin }, 0);
  metrics.gauge(
    'runledger_witness_tree_size',
    'Leaves of the tree that was cosigned last, by origin.',
    async () =>
      (await sizes(options)).map(
        ({ origin, size }) => [{ origin }, size] as [{ origin: string }, number],
      ),
    ['origin'],
  );
  return { requests, other_trees };
}

function createAddCheckpoint(
  { folder, logs, log }: WitnessOptions,
  other_trees: Counter<'origin'>,
) {
  const { signer } = folder;
  /** The tree of each origin that this process has on disk. Not one that was there before: its write may have failed. */
  const stored = new Map<string, Witnessed>();
  const turns = new Map<string, Promise<unknown>>();
  const inTurn = <T>(origin: string, work: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(origin) ?? Promise.resolve()).then(work);
    turns.set(
      origin,
      turn.catch(() => {}),
    );
    return turn;
  };

  const decide = async (addition: Addition): Promise<Answer> => {
    const { note, checkpoint } = addition;
    const { origin, size, root } = checkpoint;
    const last = await folder.last(origin);
    const kept = stored.get(origin);
    if (kept && !isTree(kept, last))
      throw new BadWitnessFolder(
        `the folder has a tree of ${last.size} events for ${origin}, and this process has stored one of ${kept.size}: somebody has changed the folder, so use a new one, with a new key under another name, and do not start this one again`,
      );
    const conflict = conflictOf(addition, last);
    if (conflict) {
      // Two signed trees of one size prove a fork. A proof does not: anybody can send a wrong one with the log's checkpoint.
      if (size === last.size && !root.equals(last.root)) {
        other_trees.add({ origin });
        log.error(
          { origin, size, root: root.toString('base64'), note: note.text },
          'the log has signed another tree of the size that was cosigned before',
        );
      } else if (conflict.status === WITNESS_STATUS.not_proven)
        log.info({ origin, cosigned: last.size, size }, 'a proof does not fit');
      return conflict.status === WITNESS_STATUS.other_size
        ? { status: conflict.status, type: SIZE_TYPE, body: `${last.size}\n` }
        : { status: conflict.status, body: `${conflict.problem}\n` };
    }
    const cosignature = signer.sign(note.text);
    const own = logs.map((key) => signatureBy(note, key)).filter((each) => !!each);
    const cosigned = { text: note.text, signatures: [...own, cosignature] };
    // It could not be read again, and without it nothing is cosigned for this origin any more.
    if (Buffer.byteLength(noteText(cosigned)) > MOST_NOTE_BYTES) return TOO_LONG;
    // Where the tree is the same, too: the last write may have failed after the new name was seen.
    if (!kept || !isTree(kept, checkpoint)) {
      stored.delete(origin);
      await folder.put(origin, cosigned);
      stored.set(origin, checkpoint);
    }
    return { status: WITNESS_STATUS.cosigned, body: signatureLine(cosignature) };
  };

  return async (body: Buffer, isGone: IsGone): Promise<Answer | null> => {
    const addition = parsed(body);
    if (addition instanceof BadNote)
      return { status: WITNESS_STATUS.malformed, body: `${addition.message}\n` };
    const rejection = rejectionOf(addition, logs);
    if (rejection) return { status: rejection.status, body: `${rejection.problem}\n` };
    return inTurn(addition.checkpoint.origin, async () => (isGone() ? null : decide(addition)));
  };
}

const isTree = (one: Witnessed, { size, root }: Witnessed): boolean =>
  one.size === size && one.root.equals(root);

function parsed(body: Buffer): Addition | BadNote {
  try {
    return parseAddition(body);
  } catch (error) {
    if (error instanceof BadNote) return error;
    throw error;
  }
}

/** Null if it is too large; then the rest of it is not read. */
async function readBody(req: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MOST_ADDITION_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function send(res: ServerResponse, answer: Answer | null): void {
  if (answer === null || res.headersSent) return;
  const { status, type = TEXT, body } = answer;
  res.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    ...(status === 405 && { Allow: 'POST' }),
    ...(CLOSES.includes(answer) && { Connection: 'close' }),
  });
  res.end(body);
}

const originsOf = ({ logs }: Pick<WitnessOptions, 'logs'>) => [
  ...new Set(logs.map(({ name }) => name)),
];

async function sizes(
  options: Pick<WitnessOptions, 'folder' | 'logs'>,
): Promise<{ origin: string; size: number }[]> {
  return Promise.all(
    originsOf(options).map(async (origin) => ({
      origin,
      size: (await options.folder.last(origin)).size,
    })),
  );
}

async function health(options: WitnessOptions): Promise<string> {
  const { name } = options.folder.signer.verifier;
  return `${JSON.stringify({ status: 'ok', name, logs: await sizes(options) })}\n`;
}
