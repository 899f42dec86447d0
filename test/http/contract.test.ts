/** Each rule of the API's document and of the page that settles its open values, over real sockets, on two web processes. */
import { mkdirSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { accessRules } from './contract/access_rules.ts';
import { batchRules } from './contract/batch_rules.ts';
import { cancelRules } from './contract/cancel_rules.ts';
import { commandRules } from './contract/command_rules.ts';
import { httpRules } from './contract/http_rules.ts';
import { judgingRules } from './contract/judging_rules.ts';
import { listRules } from './contract/list_rules.ts';
import { messageRules } from './contract/message_rules.ts';
import { namedRules } from './contract/named_rules.ts';
import { queueRules } from './contract/queue_rules.ts';
import { rateRules } from './contract/rate_rules.ts';
import { requestRules } from './contract/request_rules.ts';
import { resultRules } from './contract/result_rules.ts';
import type { Rule } from './contract/rule.ts';
import { runRules } from './contract/run_rules.ts';
import { createStage, NotRun } from './contract/stage.ts';
import { submitRules } from './contract/submit_rules.ts';
import { testSetRules } from './contract/test_set_rules.ts';
import { tlsRules } from './contract/tls_rules.ts';
import { webhookRules } from './contract/webhook_rules.ts';

const RULES: readonly Rule[] = [
  ...requestRules,
  ...judgingRules,
  ...testSetRules,
  ...submitRules,
  ...queueRules,
  ...resultRules,
  ...batchRules,
  ...cancelRules,
  ...listRules,
  ...namedRules,
  ...accessRules,
  ...rateRules,
  ...tlsRules,
  ...httpRules,
  ...messageRules,
  ...runRules,
  ...webhookRules,
  ...commandRules,
];
const TABLE = new URL('../../build/contract.json', import.meta.url);
const only = process.env['RUNLEDGER_TEST_ONLY'];

t.test('the public contract', async (t) => {
  const stage = createStage(t);
  const results: object[] = [];
  for (const { see, ...rule } of RULES) {
    if (only && !`${rule.about}: ${rule.says}`.includes(only)) continue;
    const name = `${rule.from}: ${rule.about}: ${rule.says}`;
    const began = performance.now();
    const failed = await see(stage).then(
      () => null,
      (error: Error) => error,
    );
    const ms = Math.round(performance.now() - began);
    if (failed === null) t.pass(name);
    else if (failed instanceof NotRun) t.pass(name, { skip: failed.message });
    else t.fail(name, { message: failed.message, stack: failed.stack ?? '' });
    const result = failed === null ? 'holds' : failed instanceof NotRun ? 'not run' : 'FAILS';
    results.push({ ...rule, result, ms, ...(failed && { why: failed.message.slice(0, 500) }) });
  }
  mkdirSync(new URL('.', TABLE), { recursive: true });
  writeFileSync(TABLE, JSON.stringify(results, null, 1));
});
