/**
 * One attempt to deliver a webhook: guard, dial, POST, and say what came of it as a named fact.
 * Nothing here throws for what the other side does, and nothing is retried.
 *
 * What must stay true:
 * - Only addresses that the guard judged are dialled: the socket's `lookup` is our list. Host
 *   header and SNI keep the name of the URL.
 * - An agent of its own for each attempt: no kept connection (which would skip the check), no
 *   TLS session shared between receivers, and no proxy, which only Node's global agents know of.
 * - Certificates are verified even where the environment tells Node not to.
 * - One timer for everything, name lookup to the end of the answer. Timers are monotonic.
 * - The status line decides. What follows it is read up to a limit so that the receiver can end in
 *   peace, is kept nowhere, and cannot take the answer back.
 */
import http from 'node:http';
import https from 'node:https';
import { isIPv6, type LookupFunction, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { AttemptOutcome } from '../domain/delivery_outcomes.ts';
import { parseRetryAfter } from './backoff.ts';
import { type GuardOptions, parseWebhookUrl, resolveTarget, type Target } from './guard.ts';
import type { Resolver } from './resolve.ts';

export const ATTEMPT_LIMIT_MS = 15_000;
export const ANSWER_LIMIT_BYTES = 65_536;
/** Of the answer's head; the rest of what may be read is for its body. */
const HEAD_LIMIT_BYTES = 16_384;
/** 1xx answers before the real one; each has a head of its own, so without a bound they had none together. */
const INFORMATION_LIMIT = 8;
/** For one address when others are left to try; the last one has all the time that is left. */
const CONNECT_LIMIT_MS = 2000;

export type { AttemptOutcome } from '../domain/delivery_outcomes.ts';

export type Attempt = {
  outcome: AttemptOutcome;
  /** of the answer, when one came */
  status: number | null;
  /** an error code or the name of a range: for the operator, from our side alone */
  detail: string | null;
  /** the address that was dialled */
  address: string | null;
  retry_after_ms: number | null;
  answer_bytes: number;
  answer_cut: boolean;
  duration_ms: number;
};

export type SendOrder = {
  url: string;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
  /** the wall clock at the start, to read a Retry-After date against */
  at: Date;
};

export type SendOptions = GuardOptions & {
  resolve: Resolver;
  /** our own stop */
  signal: AbortSignal;
  limit_ms?: number;
  /** certificate authorities beside Node's own list: for receivers inside one's own walls, and tests */
  ca?: string[];
};

type Facts = Omit<Attempt, 'duration_ms'>;

export async function sendWebhook(order: SendOrder, options: SendOptions): Promise<Attempt> {
  const started = performance.now();
  const timer = startTimer(options);
  try {
    const facts = await attempt(order, options, timer.signal);
    return { ...facts, duration_ms: Math.round(performance.now() - started) };
  } finally {
    timer.stop();
  }
}

/** Aborts at the limit or with our own stop, whichever is first. */
function startTimer({ signal, limit_ms = ATTEMPT_LIMIT_MS }: SendOptions) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort('timeout'), limit_ms);
  const stop = () => controller.abort('cut_off');
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  return {
    signal: controller.signal,
    stop: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    },
  };
}

async function attempt(
  order: SendOrder,
  options: SendOptions,
  signal: AbortSignal,
): Promise<Facts> {
  const parsed = parseWebhookUrl(order.url, options);
  if (parsed.kind === 'refused') return nothing('blocked_url', parsed.message);
  const { target } = parsed;
  const found = await Promise.race([
    resolveTarget(target, options.resolve, options, signal),
    aborted(signal),
  ]);
  // A cancelled lookup also ends as a failed one: the reason is the abort, not the DNS.
  if (found === 'aborted' || signal.aborted)
    return nothing(signal.reason as AttemptOutcome, 'lookup');
  if (found.kind === 'dns_failed') return nothing('dns_failed', found.code);
  if (found.kind === 'blocked_address')
    return { ...nothing('blocked_address', found.range), address: found.address };
  return post(target, found.addresses, order, options, signal);
}

function nothing(outcome: AttemptOutcome, detail: string): Facts {
  return {
    outcome,
    status: null,
    detail,
    address: null,
    retry_after_ms: null,
    answer_bytes: 0,
    answer_cut: false,
  };
}

function aborted(signal: AbortSignal): Promise<'aborted'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('aborted');
    signal.addEventListener('abort', () => resolve('aborted'), { once: true });
  });
}

type Stage = 'connect' | 'handshake' | 'answer';
type Progress = { stage: Stage; address: string | null; facts: Facts | null };

/** Settles when the request is closed: 'close' comes last and always, after an answer, an error or an abort. */
function post(
  target: Target,
  addresses: string[],
  order: SendOrder,
  options: SendOptions,
  signal: AbortSignal,
): Promise<Facts> {
  return new Promise((settle) => {
    const progress: Progress = { stage: 'connect', address: null, facts: null };
    const request = dial(target, addresses, order, options, signal);
    request.on('socket', (socket) => follow(socket, target, progress));
    request.on('response', (response) => {
      progress.facts = factsOf(response, order, progress);
      drain(response, progress.facts);
    });
    let informed = 0;
    request.on('information', () => {
      informed += 1;
      if (informed > INFORMATION_LIMIT) request.destroy(coded('TOO_MANY_1XX'));
    });
    request.on('error', (error) => {
      progress.facts ??= failure(error, progress, signal);
    });
    request.on('close', () =>
      settle(progress.facts ?? failure(coded('NO_ANSWER'), progress, signal)),
    );
    request.end(order.body);
  });
}

function dial(
  target: Target,
  addresses: string[],
  order: SendOrder,
  options: SendOptions,
  signal: AbortSignal,
): http.ClientRequest {
  const common = {
    method: 'POST',
    host: target.hostname,
    port: target.port,
    path: target.path,
    headers: { ...order.headers, host: target.authority, 'content-length': order.body.byteLength },
    lookup: judgedOnly(addresses),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: CONNECT_LIMIT_MS,
    maxHeaderSize: HEAD_LIMIT_BYTES,
    signal,
  };
  if (target.scheme === 'http') return http.request({ ...common, agent: new http.Agent() });
  return https.request({
    ...common,
    agent: new https.Agent({ maxCachedSessions: 0 }),
    // RFC 6066: an address is no server name.
    servername: target.is_literal ? '' : target.hostname,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
}

/** The resolver's answer, already judged, in the form in which a socket asks for it. */
function judgedOnly(addresses: string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  return (_hostname, options, callback) => {
    if (options.all) callback(null, all);
    else callback(null, all[0]!.address, all[0]!.family);
  };
}

function follow(socket: Socket, target: Target, progress: Progress): void {
  socket.once('connect', () => {
    progress.address = socket.remoteAddress ?? null;
    progress.stage = target.scheme === 'https' ? 'handshake' : 'answer';
  });
  socket.once('secureConnect', () => {
    progress.stage = 'answer';
  });
}

function factsOf(response: http.IncomingMessage, order: SendOrder, progress: Progress): Facts {
  const status = response.statusCode ?? 0;
  const outcome = outcomeOf(status);
  const again =
    outcome === 'delivered' || outcome === 'gone' ? undefined : response.headers['retry-after'];
  return {
    outcome,
    status,
    detail: null,
    address: progress.address,
    retry_after_ms: parseRetryAfter(again, order.at),
    answer_bytes: 0,
    answer_cut: false,
  };
}

function outcomeOf(status: number): AttemptOutcome {
  if (status >= 200 && status < 300) return 'delivered';
  if (status === 410) return 'gone';
  return status >= 300 && status < 400 ? 'redirect' : 'refused_status';
}

function drain(response: http.IncomingMessage, facts: Facts): void {
  const limit = ANSWER_LIMIT_BYTES - HEAD_LIMIT_BYTES;
  response.on('data', (chunk: Buffer) => {
    const room = limit - facts.answer_bytes;
    facts.answer_bytes += Math.min(chunk.length, room);
    if (chunk.length <= room) return;
    facts.answer_cut = true;
    response.destroy();
  });
  // The status is in: an answer that breaks off after it is an answer cut short, no more.
  response.on('error', () => {
    facts.answer_cut = true;
  });
}

function failure(error: Error, progress: Progress, signal: AbortSignal): Facts {
  const code = (error as NodeJS.ErrnoException).code ?? error.name;
  const dialled = { address: progress.address };
  if (signal.aborted)
    return { ...nothing(signal.reason as AttemptOutcome, progress.stage), ...dialled };
  if (progress.stage === 'connect') return nothing('connect_failed', code);
  // With TLS 1.3 a server can refuse the client after the client holds the handshake for done.
  const tls = progress.stage === 'handshake' || code.startsWith('ERR_SSL');
  return { ...nothing(tls ? 'tls_failed' : 'answer_broken', code), ...dialled };
}

function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}
