/**
 * Makes one attempt to deliver a webhook: guard, dial, POST, and return the outcome as a named fact.
 * The receiver's behaviour never makes it throw, and it retries nothing.
 *
 * What must stay true:
 * - Only addresses that the guard checked are dialled: the socket's `lookup` is that list. The Host
 *   header and SNI keep the name in the URL.
 * - Each attempt has its own agent. So no connection is reused (which would skip the check), no TLS
 *   session is shared between receivers, and no proxy is used (only Node's global agents know one).
 * - Certificates are verified even when the environment turns verification off in Node.
 * - One timer covers everything, from the name lookup to the end of the answer. Timers are monotonic.
 * - The status line decides the outcome. The rest of the answer is read up to a limit, so that the
 *   receiver can finish, is not kept, and cannot change the outcome.
 */
import http from 'node:http';
import https from 'node:https';
import { isIPv6, type LookupFunction, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { AttemptOutcome } from '../domain/delivery_outcomes.ts';
import { type GuardOptions, parseWebhookUrl, resolveTarget, type Target } from './guard.ts';
import type { Resolver } from './resolve.ts';
import { parseRetryAfter } from './retry_after.ts';

export const ATTEMPT_LIMIT_MS = 15_000;
export const ANSWER_LIMIT_BYTES = 65_536;
/** For the head of the answer; the rest of ANSWER_LIMIT_BYTES is for its body. */
const HEAD_LIMIT_BYTES = 16_384;
/** 1xx answers before the final one. Each has a head with its own limit, so their number needs one too. */
const INFORMATION_LIMIT = 8;
/** For one address while others are left to try; the last address gets all remaining time. */
const CONNECT_LIMIT_MS = 2000;

export type Attempt = {
  outcome: AttemptOutcome;
  /** of the answer, if there was one */
  status: number | null;
  /** an error code or the name of a range, for the operator; it contains nothing that the receiver sent */
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
  /** the wall clock at the start, from which a Retry-After date counts */
  at: Date;
};

export type SendOptions = GuardOptions & {
  resolve: Resolver;
  /** aborts when the service stops */
  signal: AbortSignal;
  limit_ms?: number;
  /** certificate authorities to trust instead of Node's own list; for tests */
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

/** Aborts at the time limit or when the service stops, whichever is first. */
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
  if (parsed.kind === 'blocked') return unsent('blocked_url', parsed.message);
  const { target } = parsed;
  const found = await Promise.race([
    resolveTarget(target, options.resolve, options, signal),
    aborted(signal),
  ]);
  // A cancelled lookup also reports a failure of the DNS, but the abort is the reason.
  if (found === 'aborted' || signal.aborted)
    return unsent(signal.reason as AttemptOutcome, 'lookup');
  if (found.kind === 'dns_failed') return unsent('dns_failed', found.code);
  if (found.kind === 'blocked_address')
    return { ...unsent('blocked_address', found.range), address: found.address };
  return post(target, found.addresses, order, options, signal);
}

function unsent(outcome: AttemptOutcome, detail: string): Facts {
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

/** Settles on 'close', which always comes, and comes last: after an answer, an error or an abort. */
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
    lookup: checkedOnly(addresses),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: CONNECT_LIMIT_MS,
    maxHeaderSize: HEAD_LIMIT_BYTES,
    signal,
  };
  if (target.scheme === 'http') return http.request({ ...common, agent: new http.Agent() });
  return https.request({
    ...common,
    agent: new https.Agent({ maxCachedSessions: 0 }),
    // RFC 6066 forbids an address as the server name.
    servername: target.is_literal ? '' : target.hostname,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
}

/** The addresses that the guard checked, as the lookup function of a socket. */
function checkedOnly(addresses: string[]): LookupFunction {
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
  const retryAfter =
    outcome === 'delivered' || outcome === 'gone' ? undefined : response.headers['retry-after'];
  return {
    outcome,
    status,
    detail: null,
    address: progress.address,
    retry_after_ms: parseRetryAfter(retryAfter, order.at),
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
  // The status has decided the outcome: an answer that breaks off after it is only cut short.
  response.on('error', () => {
    facts.answer_cut = true;
  });
}

function failure(error: Error, progress: Progress, signal: AbortSignal): Facts {
  const code = (error as NodeJS.ErrnoException).code ?? error.name;
  const dialled = { address: progress.address };
  if (signal.aborted)
    return { ...unsent(signal.reason as AttemptOutcome, progress.stage), ...dialled };
  if (progress.stage === 'connect') return unsent('connect_failed', code);
  // With TLS 1.3 a server can reject the client after the handshake has ended for the client.
  const tls = progress.stage === 'handshake' || code.startsWith('ERR_SSL');
  return { ...unsent(tls ? 'tls_failed' : 'answer_broken', code), ...dialled };
}

function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}
