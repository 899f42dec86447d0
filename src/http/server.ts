/** The web process: composes the parts, listens, and stops in order. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import polka from 'polka';
import { type Config, listenHost } from '../config.ts';
import { type Db, isAway } from '../db.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { createResults } from '../store/results.ts';
import { createHealth } from '../store/service_health.ts';
import { createSubmissions } from '../store/submissions.ts';
import { createWaiters } from '../store/waiters.ts';
import { type Match, withPatience } from './door.ts';
import { openExchange } from './exchange.ts';
import { type Newcomers, watchNewcomers } from './newcomers.ts';
import { openapiDocument } from './openapi.ts';
import { submissionParser } from './parse_submission.ts';
import { patternOf, routeTable } from './routes.ts';
import { submissionRules } from './rules.ts';
import { createServe, type Serve } from './serve.ts';
import { serverOptions, watchSockets } from './sockets.ts';
import { createSpentKeys } from './spent_keys.ts';
import type { Web, WebhookPort } from './web.ts';

/** For the answers that are left when the grace is over. */
const LAST_WORDS_MS = 1_000;
/** Access changes are told on it: see tell_access_changed() in sql/functions/access.sql. */
const ACCESS_CHANNEL = 'runledger_access';
/** New deliveries are told on it: see enqueue_deliveries() in sql/functions/enqueue.sql. */
const DELIVERIES_CHANNEL = 'runledger_deliveries';

export type WebParts = {
  config: Config;
  log: Log;
  db: Db;
  /** One connection that submits, and one that asks for what ended. */
  submitting: Db;
  asking: Db;
  webhooks: WebhookPort;
  /** there may be deliveries to be made; a word of it that is lost is made good elsewhere */
  onDeliveries?: () => void;
  /** where others put what they measure, too */
  metrics?: Metrics;
};

export type RunningWeb = {
  /** as callers on this machine reach it */
  readonly origin: string;
  readonly port: number;
  /** Stops accepting, answers what it holds, and gives up after the grace. */
  close(grace_ms?: number): Promise<void>;
};

export async function startWeb(parts: WebParts): Promise<RunningWeb> {
  const { config, log } = parts;
  let open = true;
  const web = await composeWeb(parts, () => open);
  const metrics = parts.metrics ?? createMetrics();
  const server = serverOf(config);
  const serve = createServe(web, metrics);
  const sockets = watchSockets(server, {
    respond: serve.respond,
    cut: serve.cut,
    note: (facts) => log.info(facts, 'no request'),
  });
  const newcomers = watchNewcomers(server);
  const app = routedApp((req, res, match, params) => {
    const exchange = openExchange(req, res, { trust_router: config.tls === 'proxy' });
    exchange.route = 'route' in match ? match.route.path : '(none)';
    exchange.params = params;
    sockets.opened(exchange);
    serve.begin(exchange, match, () => sockets.ended(exchange));
  });
  server.maxConnections = config.connections_max;
  server.on('request', app);
  // Whether the body is wanted is decided later: the reader of the body says "100 Continue".
  server.on('checkContinue', app);
  // RFC 9110 lets a server ignore an expectation that it does not know.
  server.on('checkExpectation', app);
  await listen(server, config);
  const { port } = server.address() as AddressInfo;
  const scheme = config.tls === 'native' ? 'https' : 'http';
  return {
    origin: `${scheme}://${originHost(config)}:${port}`,
    port,
    async close(grace_ms = config.shutdown_grace_ms) {
      open = false;
      await stop({ server, newcomers, web, serve }, grace_ms);
    },
  };
}

async function composeWeb(parts: WebParts, isOpen: () => boolean): Promise<Web> {
  const { config, log, db, submitting, asking, webhooks, onDeliveries = () => {} } = parts;
  if (config.digest_key === null) {
    throw new Error('RUNLEDGER_DIGEST_KEY is not set: make one with  openssl rand -base64 32');
  }
  const rules = submissionRules(config, webhooks);
  const results = createResults(db);
  const { ended } = createResults(asking);
  const submissions = createSubmissions(submitting, {
    queue_capacity: config.queue_capacity,
    waiting: () => waiters.count,
  });
  const health = createHealth(db);
  const spent_keys = createSpentKeys();
  const onFault = (error: unknown) => {
    if (!isAway(error)) log.error({ err: error }, 'waiting for results failed');
  };
  const onAccessChange = () => {
    spent_keys.forget();
    log.info('keys or limits were changed');
  };
  const waiters = await createWaiters(db, { ended }, onFault, {
    channels: { [ACCESS_CHANNEL]: onAccessChange, [DELIVERIES_CHANNEL]: onDeliveries },
    // while the connection was lost, a word may have been missed
    onHearing() {
      spent_keys.forget();
      onDeliveries();
    },
  });
  return {
    config,
    log,
    submissions: {
      submit: withPatience(submissions.submit),
      settle: withPatience(submissions.settle),
    },
    results: {
      read: withPatience(results.read),
      spend: withPatience(results.spend),
      ended,
      record: withPatience(results.record),
    },
    waiters,
    health: { read: withPatience(health.read), ping: withPatience(health.ping) },
    spent_keys,
    webhooks,
    digest_key: config.digest_key,
    parseSubmission: submissionParser(rules),
    openapi: Buffer.from(JSON.stringify(openapiDocument(rules))),
    isOpen,
  };
}

type OnRequest = (
  req: IncomingMessage,
  res: ServerResponse,
  match: Match,
  params: Record<string, string>,
) => void;

/** polka finds the route; what it would do on its own (errors, 404) is not left to it. */
function routedApp(onRequest: OnRequest): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = routeTable();
  const patterns = routes.map((route) => ({ route, pattern: patternOf(route.path) }));
  const allowed = (path: string): string | null => {
    const methods = patterns
      .filter(({ pattern }) => pattern.test(path))
      .map(({ route }) => route.method);
    if (path === '*') methods.push('GET', 'POST');
    if (methods.length === 0) return null;
    return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  };
  const app = polka({
    onNoMatch: (req, res) => onRequest(req, res, { allow: allowed(req.path) }, {}),
    onError: (_error, req) => {
      req.socket.destroy();
    },
  });
  for (const { route, pattern } of patterns) {
    app.add(route.method, pattern, (req, res) => onRequest(req, res, { route }, req.params));
  }
  return (req, res) => {
    req.url = localTarget(req.url ?? '/');
    app.handler(req as Parameters<typeof app.handler>[0], res, undefined as never);
  };
}

/** Of the absolute form (`GET http://host/path`), which every server has to take, what is ours. */
function localTarget(target: string): string {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
  return absolute === null ? target : target.slice(absolute[0].length) || '/';
}

function serverOf(config: Config): Server {
  const options = serverOptions(config);
  if (config.tls !== 'native') return createServer(options);
  return createTlsServer({
    ...options,
    cert: readFileSync(config.tls_cert_file!),
    key: readFileSync(config.tls_key_file!),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: 10_000,
  }) as unknown as Server;
}

function listen(server: Server, config: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // A burst of connections waits in the kernel's queue and is not refused.
    server.listen({ port: config.port, host: listenHost(config), backlog: 4_096 }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function originHost(config: Config): string {
  const host = listenHost(config);
  if (host === '::' || host === '0.0.0.0') return 'localhost';
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

type Stopping = { server: Server; newcomers: Newcomers; web: Web; serve: Serve };

/** After the grace what is held is answered without its result; what cannot be answered is cut. */
async function stop({ server, newcomers, web, serve }: Stopping, grace_ms: number): Promise<void> {
  await newcomers.allIn();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const giveUp = setTimeout(() => void web.waiters.close(), grace_ms);
  const cut = setTimeout(() => server.closeAllConnections(), grace_ms + LAST_WORDS_MS);
  await newcomers.heard();
  await serve.idle();
  clearTimeout(giveUp);
  clearTimeout(cut);
  await web.waiters.close();
  server.closeAllConnections();
  await closed;
}
