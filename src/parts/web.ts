/** Web: answers requests, delivers webhooks, keeps house. No code of a stranger runs here. */
import type { Config } from '../config.ts';
import { connect } from '../db.ts';
import { createSigner } from '../domain/seal_chain.ts';
import { startWeb } from '../http/server.ts';
import type { WebhookPort } from '../http/web.ts';
import { createDelivering } from '../queue/deliveries.ts';
import { startWebJobs } from '../queue/web_jobs.ts';
import { seal } from '../store/seals.ts';
import { encryptSecret } from '../webhooks/encrypt_secret.ts';
import { parseWebhookUrl } from '../webhooks/guard.ts';
import { addressOf, type Given, openMetrics, type Running } from './part.ts';

export async function startWebPart({ config, log }: Given): Promise<Running> {
  const address = addressOf(config, 'web');
  const { metrics, close } = await openMetrics(config);
  const open = (max: number) => connect(address, { name: 'runledger web', max });
  // What has one statement in flight at most has a connection to itself: its server process stays warm for it.
  const [submitting, asking] = [open(1), open(1)];
  const db = open(Math.max(config.database_pool - 2, 1));
  const signer = config.seal_key && createSigner(config.seal_key);
  const jobs = await startWebJobs({
    config,
    log,
    // Without a key to open their secrets with nothing can be signed.
    deliver: config.webhook_keys && createDelivering({ config, log, db, metrics }),
    seal: (db) => seal(db, signer),
    metrics,
  });
  const webhooks = webhookPort(config);
  const web = await startWeb({
    config,
    log,
    db,
    submitting,
    asking,
    webhooks,
    metrics,
    onDeliveries: jobs.news,
  });
  const stop = async () => {
    // Both at once: their graces do not add up.
    await Promise.all([web.close(), jobs.stop(config.shutdown_grace_ms)]);
    await close();
    await Promise.all([submitting, asking, db].map((each) => each.end({ timeout: 1 })));
  };
  return { address: web.origin, stop };
}

/** How submissions' webhooks are checked and encrypted; null where there is no key to encrypt with. */
function webhookPort(config: Config): WebhookPort {
  const keys = config.webhook_keys;
  if (!keys) return null;
  const options = { allow_loopback: config.webhook_allow_loopback };
  return {
    refuseUrl: (url) => {
      const parsed = parseWebhookUrl(url, options);
      return parsed.kind === 'blocked' ? parsed.message : null;
    },
    encrypt: (submission_id, secret) => encryptSecret(keys, submission_id, secret),
  };
}
