/** Every address of this service. */
import type { ApiCall } from './api_call.ts';
import { cancelSubmission } from './cancel_submission.ts';
import { frontPage } from './front_page.ts';
import { languages, toolchains } from './list_languages.ts';
import { listSubmissions } from './list_submissions.ts';
import { listTestSets } from './list_test_sets.ts';
import { readOneSubmission } from './one_submission.ts';
import { deleteTestSet, readTestSet } from './one_test_set.ts';
import { openapiJson } from './openapi_json.ts';
import { livez, readyz } from './probes.ts';
import { health, healthReady } from './read_health.ts';
import { readReceipt } from './read_receipt.ts';
import { readResult } from './read_result.ts';
import { streamEvents } from './stream_events.ts';
import { submit } from './submit.ts';
import { submitBatch } from './submit_batch.ts';
import { uploadTestSet } from './upload_test_set.ts';

export const calls: readonly ApiCall[] = [
  submit,
  submitBatch,
  readResult,
  readReceipt,
  listSubmissions,
  readOneSubmission,
  cancelSubmission,
  streamEvents,
  uploadTestSet,
  listTestSets,
  readTestSet,
  deleteTestSet,
  languages,
  toolchains,
  health,
  healthReady,
  livez,
  readyz,
  openapiJson,
  frontPage,
];
