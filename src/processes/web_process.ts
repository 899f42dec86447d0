/** The web process: answers requests, delivers webhooks, seals the log. It never runs submitted code. */

import { sharesOf } from '../config/connections.ts';
import { databaseAddress } from '../config/database_tls.ts';
import { logKeyOf } from '../config/seal_key.ts';
import type { Config } from '../config.ts';
import { connect, createSockets, type Db, IDLE_S } from '../db.ts';
import type { WebhookPort } from '../http/api/api_call.ts';
import { startWeb } from '../http/server.ts';
import { createCosigning } from '../queue/cosigning.ts';
import { createAnnouncements } from '../queue/delivery_runner.ts';
import { createDelivering } from '../queue/delivery_setup.ts';
import { observeService } from '../queue/service_metrics.ts';
import { startWebJobs } from '../queue/web_jobs.ts';
import { createSealer } from '../store/checkpoints.ts';
import { encryptSecret } from '../webhooks/encrypt_secret.ts';
import { parseWebhookUrl } from '../webhooks/guard.ts';
import { observedReplica } from './observed_replica.ts';
import { openLargeRecords } from './open_large_records.ts';
import { addressOf, type Given, onceItAnswers, openMetrics, type Running } from './process.ts';

export async function startWebProcess(given: Given): Promise<Running> {
  // Without an address there is nothing to wait for.
  addressOf(given.config, 'web');
  const { log, onOtherSchema } = given;
  const { metrics, close } = await openMetrics(given, 'web');
  let observed: Db | null = null;
  // Before the wait: an alert on the database must not be silent where it is away from the beginning.
  observeService(metrics, () => observed, given.config);
  const config = await onceItAnswers(given, 'web');
  const address = addressOf(config, 'web');
  // Of requests, and of chores, whose statements may take long.
  const [sockets, of_chores] = [createSockets(), createSockets()];
  const open = (max: number, its = sockets) =>
    connect(address, {
      name: 'runledger web',
      max,
      sockets: its,
      idle_s: IDLE_S,
      reads_promptly: true,
    });
  const shares = sharesOf('web', config.database_pool);
  const db = open(shares.requests);
  observed = db;
  const own = (share: number, its = sockets) => (share > 0 ? open(share, its) : db);
  // Submitting and polling send one statement at a time each. A dedicated connection keeps its backend's caches warm.
  const [submitting, asking, maintenance] = [
    own(shares.submitting),
    own(shares.asking),
    own(shares.maintenance, of_chores),
  ];
  const large_records = openLargeRecords(config);
  const sealer = createSealer(logKeyOf(config));
  const cosigning = createCosigning({ witnesses: config.witnesses ?? [], sealer, log, metrics });
  const announcements = createAnnouncements();
  const jobs = await startWebJobs({
    config,
    log,
    db: maintenance,
    // Without the keys, webhook secrets cannot be decrypted and deliveries cannot be signed.
    deliver: config.webhook_keys && createDelivering({ config, log, db, large_records, metrics }),
    announcements,
    sealer,
    cosigning,
    onBack() {
      for (const each of [sockets, of_chores]) each.endSilent();
      large_records.endSilent();
    },
    onOtherSchema,
    metrics,
  });
  const { read_database_url } = config;
  const replica =
    read_database_url === null
      ? null
      : observedReplica({
          open: () => openReplica(config, read_database_url),
          primary: db,
          consumer_id: jobs.consumer_id,
          log,
          metrics,
        });
  const webhooks = webhookPort(config);
  const web = await startWeb({
    config,
    log,
    db,
    submitting,
    asking,
    // With few connections, chores use the same ones.
    ...(!address.pooled && shares.maintenance > 0 && { sockets }),
    replica,
    large_records,
    webhooks,
    onDeliveries: webhooks && announcements.hear,
    witnesses: cosigning.states,
    sealingProblem: sealer.problem,
    metrics,
  });
  const stop = async () => {
    // Both at the same time, so that their grace periods don't add up.
    await Promise.all([web.close(), jobs.stop(config.shutdown_grace_ms)]);
    await close();
    await large_records.close();
    await replica?.close();
    const opened = new Set([submitting, asking, maintenance, db]);
    await Promise.all([...opened].map((each) => each.end({ timeout: 1 })));
  };
  return { address: web.origin, stop };
}

/** A pooler before the primary says nothing of the replica, whose address leads to PostgreSQL itself. */
function openReplica(config: Config, url: string): Db {
  const address = databaseAddress({ ...config, database_pooled: false }, url);
  const { reads } = sharesOf('replica', config.database_pool);
  return connect(address, { name: 'runledger web replica', max: reads });
}

/** Checks webhook addresses and encrypts webhook secrets; null without keys to encrypt with. */
function webhookPort(config: Config): WebhookPort {
  const keys = config.webhook_keys;
  if (!keys) return null;
  const options = { allow_loopback: config.webhook_allow_loopback };
  return {
    urlProblem: (url) => {
      const parsed = parseWebhookUrl(url, options);
      return parsed.kind === 'blocked' ? parsed.message : null;
    },
    encrypt: (submission_id, secret) => encryptSecret(keys, submission_id, secret),
  };
}
