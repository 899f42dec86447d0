/** The rules of this deployment for submissions, from its configuration. */
import type { Config } from '../../config.ts';
import { policyFrom, REQUEST_LIMITS } from '../../domain/limits.ts';
import type { WebhookPort } from './api_call.ts';
import type { SubmissionRules } from './submission_schema.ts';

export function submissionRules(config: Config, webhooks: WebhookPort): SubmissionRules {
  const forbidden: string[] = [...(config.forbidden_fields ?? [])];
  if (webhooks === null || forbidden.includes('webhook_url')) {
    forbidden.push('webhook_url', 'webhook_secret');
  }
  return {
    languages: config.languages,
    bounds: boundsOf(config),
    forbidden: [...new Set(forbidden)],
    webhookUrlProblem: (url) => webhooks?.urlProblem(url) ?? null,
  };
}

/** By the names and in the units of the API. */
function boundsOf(config: Config): SubmissionRules['bounds'] {
  const { bounds } = policyFrom(config);
  const named = REQUEST_LIMITS.map(({ name, stored, unit }) => {
    const { min, max } = bounds[stored];
    return [name, unit === 'ms' ? { min: min / 1000, max: max / 1000 } : { min, max }];
  });
  return Object.fromEntries(named) as SubmissionRules['bounds'];
}
