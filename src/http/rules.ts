/** What this deployment takes, from its configuration. */
import type { Config } from '../config.ts';
import { type Bound, policyFrom } from '../domain/limits.ts';
import type { SubmissionRules } from './schemas.ts';
import type { WebhookPort } from './web.ts';

export function submissionRules(config: Config, webhooks: WebhookPort): SubmissionRules {
  const { bounds } = policyFrom(config);
  const forbidden: string[] = [...(config.forbidden_fields ?? [])];
  if (webhooks === null || forbidden.includes('webhook_url')) {
    forbidden.push('webhook_url', 'webhook_secret');
  }
  return {
    languages: config.languages,
    bounds: {
      cpu_time: inSeconds(bounds.cpu_time_ms),
      wall_time: inSeconds(bounds.wall_time_ms),
      memory: bounds.memory_bytes,
      output: bounds.output_bytes,
      processes: bounds.processes,
    },
    forbidden: [...new Set(forbidden)],
    refuseWebhookUrl: (url) => webhooks?.refuseUrl(url) ?? null,
  };
}

function inSeconds({ min, max }: Bound): Bound {
  return { min: min / 1000, max: max / 1000 };
}
