/** The HTTP server of a web process: composes the parts, listens, and stops in order. */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, listenHost } from '../config.ts';
import { type Db, type Guard, isAway, type Sockets } from '../db.ts';
import { Fault } from '../fault.ts';
import { listenOn } from '../listen.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { createBatcher, createLines } from '../store/batch.ts';
import { createCancel } from '../store/cancel.ts';
import { CHANNELS, DELIVERIES_CHANNEL } from '../store/channels.ts';
import { createConsole } from '../store/console.ts';
import { createReadNow } from '../store/console_now.ts';
import type { WitnessState } from '../store/cosignatures.ts';
import { createEventFeed } from '../store/event_feed.ts';
import type { LargeRecords } from '../store/large_records.ts';
import { createLists } from '../store/lists.ts';
import { createSessions } from '../store/operators.ts';
import { createReceipts } from '../store/receipts.ts';
import { createRefusals, type Refusals } from '../store/refusals.ts';
import type { Replica } from '../store/replica.ts';
import { createReplicaReads } from '../store/replica_reads.ts';
import { createResults } from '../store/results.ts';
import { createHealth, type ServiceHealth } from '../store/service_health.ts';
import { createSubmissions } from '../store/submissions.ts';
import { createTestSets } from '../store/test_sets.ts';
import { createTurns } from '../store/turns.ts';
import { createWaiters } from '../store/waiters.ts';
import type { Web, WebhookPort } from './api/api_call.ts';
import { calls } from './api/calls.ts';
import { cancelCounter } from './api/cancel_submission.ts';
import { answerTo, createPatience, DATABASE_PATIENCE_MS } from './api/dispatch.ts';
import { createEventStreams } from './api/event_streams.ts';
import { createFailures, TooSlow } from './api/failures.ts';
import { createKnownKeys } from './api/known_keys.ts';
import { submissionParser } from './api/parse_submission.ts';
import { createReadiness } from './api/readiness.ts';
import { BODIES_READ, BODIES_STORED } from './api/receive_body.ts';
import { LARGE_RECORDS } from './api/record_answer.ts';
import { createSpentKeys } from './api/spent_keys.ts';
import { submissionRules } from './api/submission_rules.ts';
import { createUploads } from './api/uploads.ts';
import type { ConsoleParts } from './console/console_parts.ts';
import { consoleRoutes } from './console/console_routes.ts';
import { createKnownSessions } from './console/known_sessions.ts';
import { createLive } from './console/live.ts';
import { createSignInLimit } from './console/sign_in_limit.ts';
import { openapiDocument } from './document/openapi.ts';
import { pageOf } from './document/page.ts';
import { createRouter } from './router.ts';
import { type Answer, sharedHeaders } from './wire/answer.ts';
import { watchConnectionRoom } from './wire/connection_room.ts';
import { type Exchange, openExchange } from './wire/exchange.ts';
import { type NewConnections, watchNewConnections } from './wire/new_connections.ts';
import { createOpenRequests, type OpenRequests } from './wire/open_requests.ts';
import { awaitsContinue, gatherAhead } from './wire/read_body.ts';
import { serverOptions, watchSockets } from './wire/sockets.ts';

/** For the last answers, after the grace. */
const LAST_ANSWERS_MS = 1_000;

export type WebParts = {
  config: Config;
  log: Log;
  db: Db;
  /** One connection that submits, and one that asks which submissions ended. */
  submitting: Db;
  asking: Db;
  /** Sockets of these three: a connection may be lost without notice, while that of the heartbeats lives. */
  sockets?: Sockets;
  /** Where one is set, it answers what no lag can make wrong. */
  replica?: Replica | null;
  large_records: LargeRecords;
  webhooks: WebhookPort;
  /** New deliveries were announced. Null: this process delivers no webhooks. */
  onDeliveries?: ((payload: string) => void) | null;
  witnesses?: () => readonly WitnessState[];
  sealingProblem: Web['sealingProblem'];
  /** The other components of the process share it. */
  metrics?: Metrics;
};

export type RunningWeb = {
  /** as callers on this machine reach it */
  readonly origin: string;
  readonly port: number;
  /** Stops accepting, answers the requests in flight, and gives up after the grace. */
  close(grace_ms?: number): Promise<void>;
};

export async function startWeb(parts: WebParts): Promise<RunningWeb> {
  const { config, log } = parts;
  let open = true;
  const console_parts = composeConsole(parts);
  const metrics = parts.metrics ?? createMetrics();
  const web = await composeWeb(
    { ...parts, metrics },
    () => open,
    console_parts.known_sessions.forget,
  );
  const server = serverOf(config);
  const refusals = createRefusals(parts.db, (error) =>
    log.error({ err: error }, 'rejected requests could not be counted'),
  );
  const room = watchConnectionRoom(server, { most: config.connections_max, log, metrics });
  const shared = sharedHeaders(config.tls !== 'off');
  const open_requests = createOpenRequests({
    log,
    metrics,
    shared,
    isOpen: web.isOpen,
    isCrowded: room.isCrowded,
    rejected: countRefused(refusals),
    waiting: () => web.waiters.count,
    streams: () => web.event_streams.count,
  });
  const sockets = watchSockets(server, {
    respond: open_requests.respond,
    cut: open_requests.cut,
    shared,
    note: (facts) => log.info(facts, 'no request'),
  });
  const connections = watchNewConnections(server);
  const trust_router = config.tls === 'proxy';
  const route = createRouter(
    [...calls, ...consoleRoutes(console_parts)],
    (req, res, match, params) => {
      const exchange = openExchange(req, res, { trust_router });
      exchange.route = 'call' in match ? match.call.path : '(none)';
      exchange.params = params;
      room.began(exchange);
      const turn = sockets.opened(exchange);
      gatherAhead(req);
      const handle = () => answerTo(web, exchange, match);
      open_requests.begin(exchange, turn, handle, () => {
        room.ended(exchange);
        sockets.ended(exchange);
      });
    },
  );
  server.on('request', route);
  // The reader of the body sends "100 Continue", once a handler wants the body.
  server.on('checkContinue', (req, res) => {
    awaitsContinue(req);
    route(req, res);
  });
  // RFC 9110 lets a server ignore an expectation that it does not know.
  server.on('checkExpectation', route);
  await listenOn(server, {
    host: listenHost(config),
    port: config.port,
    // A burst of connections queues in the kernel and none is rejected.
    backlog: 4_096,
    remedy: 'end the process that uses it, or set PORT to another one (0: a free one)',
    log,
  });
  const { port } = server.address() as AddressInfo;
  const scheme = config.tls === 'native' ? 'https' : 'http';
  return {
    origin: `${scheme}://${originHost(config)}:${port}`,
    port,
    async close(grace_ms = config.shutdown_grace_ms) {
      open = false;
      await sleep(config.shutdown_drain_ms);
      await stop({ server, connections, web, open_requests }, grace_ms);
      await refusals.close();
    },
  };
}

/** Errors that say what the service or a key's limits allow; the others are mistakes in one request. */
const COUNTED = new Set([401, 413, 429, 503]);

const countRefused = (refusals: Refusals) => (exchange: Exchange, answer: Answer) => {
  if (!exchange.path.startsWith('/api/')) return;
  const { caller, presented: digest, id: request_id } = exchange;
  for (const { status, body } of answer.items ?? [answer]) {
    if (!COUNTED.has(status)) continue;
    const { error } = body as { error: string };
    refusals.count({ error, key_id: caller?.key_id ?? null, digest, request_id });
  }
};

function composeConsole(parts: WebParts): ConsoleParts {
  const { config, log, db, webhooks, witnesses = () => [], sealingProblem } = parts;
  const { patient } = createPatience(parts.sockets?.endSilent);
  const sessions = patient(createSessions(db));
  // Those who look lose patience, and the statement goes on: until it ends there is no second one, which would hold one more connection.
  const live = createLive({
    read: createReadNow(db),
    queue_capacity: config.queue_capacity,
    languages: config.languages,
    witnesses,
    sealingProblem,
  });
  return {
    log,
    store: patient(createConsole(db)),
    sessions,
    known_sessions: createKnownSessions(sessions),
    live: { ...patient({ state: live.state }), log: live.log },
    sign_ins: createSignInLimit(),
    webhooks,
    key_prefix: config.key_prefix,
    over_tls: config.tls !== 'off',
    trust_router: config.tls === 'proxy',
  };
}

async function composeWeb(
  parts: WebParts & { metrics: Metrics },
  isOpen: () => boolean,
  forgetSessions: () => void,
): Promise<Web> {
  const { config, log, db, submitting, asking, webhooks, witnesses = () => [] } = parts;
  if (config.digest_key === null) {
    throw new Fault('RUNLEDGER_DIGEST_KEY is not set', 'make one with `openssl rand -base64 32`');
  }
  const { withPatience } = createPatience(parts.sockets?.endSilent);
  /** Of questions that are asked one after the other: one that hangs would be the last. */
  const asks: Guard = parts.sockets?.unlessSilent ?? ((work) => withPatience(work)());
  const stores: Guard = parts.sockets?.unlessSilent ?? ((work) => work());
  const rules = submissionRules(config, webhooks);
  const document = openapiDocument(calls, rules);
  // Of an account, or of a key: else one could hold every connection of the requests.
  const inLine = createLines(DATABASE_PATIENCE_MS);
  const results = createResults(db, DATABASE_PATIENCE_MS);
  const parser = submissionParser(rules);
  const lists = createLists(db, DATABASE_PATIENCE_MS);
  const seals = config.seal_key !== null;
  const { look, page } = parts.replica
    ? createReplicaReads(parts.replica, {
        // Not behind pages: these are the polls of what still runs.
        results: { ...results, own: createLines(DATABASE_PATIENCE_MS)(results.own) },
        lists,
        seals,
      })
    : { look: results.look, page: lists.page };
  const receipts = createReceipts(
    db,
    (config.witnesses ?? []).map(({ key }) => key),
  );
  const test_sets = createTestSets(db);
  const questions = createResults(asking);
  const ended: typeof questions.ended = (...asked) => asks(() => questions.ended(...asked));
  const submissions = createSubmissions(submitting, {
    queue_capacity: config.queue_capacity,
    waiting: () => waiters.lately,
    replyTo: () => waiters.replyTo(),
    patience_ms: DATABASE_PATIENCE_MS,
    guard: stores,
  });
  const store_health = createHealth(db);
  const health_reads = createBatcher<null, ServiceHealth>({
    max_items: Number.POSITIVE_INFINITY,
    isAway: () => true,
    async run(items) {
      const now = await store_health.read();
      return items.map(() => now);
    },
  });
  // Not behind a crowd of requests: it says whether the database is there, not how busy it is.
  const { problem } = createHealth(asking);
  const health = {
    // The same for everybody, so who asks in the meantime is one more of the next ones.
    read: withPatience(() => health_reads.add(null)),
    problem: withPatience(problem),
  };
  const readiness = createReadiness(health, log);
  const asked = { knows: withPatience(results.knows) };
  const spent_keys = createSpentKeys(asked);
  const known_keys = createKnownKeys(asked);
  const forgetKeys = () => {
    spent_keys.forget();
    known_keys.forget();
    forgetSessions();
    event_streams.checkKeys();
  };
  const logged = (what: string) => (error: unknown) => {
    if (!isAway(error) && !(error instanceof TooSlow)) log.error({ err: error }, what);
  };
  const feed = createEventFeed(db, logged('following submissions failed'), asks);
  const of_streams = {
    knows: (digest: Uint8Array) => asks(() => results.knows(digest)),
    onFault: logged('checking the keys of event streams failed'),
  };
  const event_streams = createEventStreams(feed, of_streams, config.connections_max);
  const onAccessChange = () => {
    forgetKeys();
    log.info('keys or limits were changed');
  };
  const waiters = await createWaiters(db, { ended }, logged('waiting for results failed'), {
    channels: {
      [CHANNELS.access]: onAccessChange,
      ...(parts.onDeliveries && { [DELIVERIES_CHANNEL]: parts.onDeliveries }),
    },
    // Notifications may have been missed while the connection was lost.
    onHearing: forgetKeys,
  });
  // Not behind pages: by a cancel a customer ends what went wrong.
  const cancelInLine = createLines(DATABASE_PATIENCE_MS);
  return {
    config,
    log,
    happenings: withPatience(inLine((_account_id: string, id: string) => feed.read(id, 0))),
    submissions: readiness.watched({
      submit: withPatience(submissions.submit),
      submitAll: withPatience(submissions.submitAll),
      settle: withPatience(submissions.settle),
    }),
    lists: {
      page: withPatience(inLine(page)),
      named: withPatience(lists.named),
      summaries: withPatience(lists.summaries),
    },
    cancel: withPatience(cancelInLine(createCancel(db, cancelCounter(parts.metrics)))),
    results: {
      read: withPatience(results.read),
      look: withPatience(look),
      spend: withPatience(results.spend),
      ended,
      record: withPatience(results.record),
    },
    receipts: { read: withPatience(inLine(receipts.read)) },
    test_sets: {
      ...test_sets,
      list: withPatience(inLine(test_sets.list)),
      read: withPatience(inLine(test_sets.read)),
      remove: withPatience(inLine(test_sets.remove)),
    },
    uploads: createUploads({ window_ms: config.request_timeout_ms }),
    waiters,
    large_records: { open: parts.large_records.open, turns: createTurns(LARGE_RECORDS) },
    large_bodies: { reading: createTurns(BODIES_READ), storing: createTurns(BODIES_STORED) },
    known_keys,
    event_streams,
    health,
    witnesses,
    sealingProblem: parts.sealingProblem,
    spent_keys,
    webhooks,
    digest_key: config.digest_key,
    parseSubmission: parser.body,
    parseItem: parser.item,
    openapi: Buffer.from(JSON.stringify(document)),
    page: pageOf(document, config.languages),
    failures: createFailures(log),
    readiness,
    isOpen,
  };
}

function serverOf(config: Config): Server {
  const options = serverOptions(config);
  if (config.tls !== 'native') return createServer(options);
  return createTlsServer({
    ...options,
    cert: readNamed('RUNLEDGER_TLS_CERT_FILE', config.tls_cert_file!),
    key: readNamed('RUNLEDGER_TLS_KEY_FILE', config.tls_key_file!),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: 10_000,
  }) as unknown as Server;
}

function readNamed(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { message } = error as Error;
    throw new Fault(`${variable}: ${message}`, 'name a file that this user can read');
  }
}

function originHost(config: Config): string {
  const host = listenHost(config);
  if (host === '::' || host === '0.0.0.0') return 'localhost';
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

type Stopping = {
  server: Server;
  connections: NewConnections;
  web: Web;
  open_requests: OpenRequests;
};

/** After the grace waiting requests are answered without their results; then every connection is cut. */
async function stop(
  { server, connections, web, open_requests }: Stopping,
  grace_ms: number,
): Promise<void> {
  await connections.accepted();
  web.event_streams.close();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const giveUp = setTimeout(() => void web.waiters.close(), grace_ms);
  const cut = setTimeout(() => connections.destroy(), grace_ms + LAST_ANSWERS_MS);
  await connections.heard();
  await open_requests.idle();
  clearTimeout(giveUp);
  await web.waiters.close();
  // Requests that came in the meantime are answered, too.
  await open_requests.idle();
  clearTimeout(cut);
  connections.destroy();
  await closed;
}
