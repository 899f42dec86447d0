/**
 * The mutants. To add one, append a row to the list of its room. A row that survives needs a test, and stays; only a change
 * that no test can notice, because nothing behaves differently, is replaced by another.
 */
import { accountMutants } from './account_mutants.ts';
import { auditMutants } from './audit_mutants.ts';
import { domainMutants } from './domain_mutants.ts';
import { executorMutants } from './executor_mutants.ts';
import { handOverMutants } from './hand_over_mutants.ts';
import { httpMutants } from './http_mutants.ts';
import { judgedRequestMutants } from './judged_request_mutants.ts';
import { judgedStoreMutants } from './judged_store_mutants.ts';
import { judgingMutants } from './judging_mutants.ts';
import { localMutants } from './local_mutants.ts';
import type { Mutant } from './mutant.ts';
import { packageMutants } from './package_mutants.ts';
import { queueMutants } from './queue_mutants.ts';
import { receiptMutants } from './receipt_mutants.ts';
import { replicaMutants } from './replica_mutants.ts';
import { sealMutants } from './seal_mutants.ts';
import { storeMutants } from './store_mutants.ts';
import { testSetMutants } from './test_set_mutants.ts';
import { verifyMutants } from './verify_mutants.ts';
import { webhookMutants } from './webhook_mutants.ts';
import { witnessMutants } from './witness_mutants.ts';

export const mutants: readonly Mutant[] = [
  ...domainMutants,
  ...judgingMutants,
  ...executorMutants,
  ...queueMutants,
  ...handOverMutants,
  ...storeMutants,
  ...replicaMutants,
  ...sealMutants,
  ...receiptMutants,
  ...verifyMutants,
  ...httpMutants,
  ...accountMutants,
  ...judgedRequestMutants,
  ...judgedStoreMutants,
  ...testSetMutants,
  ...webhookMutants,
  ...witnessMutants,
  ...auditMutants,
  ...packageMutants,
  ...localMutants,
];
