/** Checks this machine and this installation: one line for each check, and what to do where something is wrong. */

import { soundConfig } from '../../config.ts';
import { type Command, type Context, JSON_OPTION, UsageError } from '../command.ts';
import { databaseRemedy } from '../database_remedy.ts';
import { databaseChecks } from '../doctor/database_checks.ts';
import { type Check, type Finding, failed, warn } from '../doctor/finding.ts';
import { isolation, launcher } from '../doctor/isolation_checks.ts';
import { environment, machineChecks, node } from '../doctor/machine_checks.ts';
import { queueChecks } from '../doctor/queue_checks.ts';
import { replica } from '../doctor/replica_checks.ts';
import { retentionChecks } from '../doctor/retention_checks.ts';
import { sealingChecks } from '../doctor/sealing_checks.ts';
import { toolchains } from '../doctor/toolchain_checks.ts';
import { witnesses } from '../doctor/witness_checks.ts';

const OF_MACHINE: readonly Check[] = [...machineChecks, launcher, isolation, toolchains];
const OF_SERVICE: readonly Check[] = [
  ...databaseChecks,
  replica,
  ...queueChecks,
  ...sealingChecks,
  ...retentionChecks,
  witnesses,
];

export const command: Command = {
  summary:
    'check this machine and this installation, and say how to fix what is wrong; exit 1 if a check fails',
  options: {
    only: {
      value: 'PART',
      help: 'machine: whether programs can run here, without asking the database; service: the rest, for a machine that runs none',
    },
    json: JSON_OPTION,
  },
  example: 'doctor --only machine',
  config: () => soundConfig().config,
  async run(context) {
    const findings: Finding[] = [];
    for (const check of checksOf(context.options['only']))
      findings.push(...(await lookAt(check, context)).filter((found) => !isSaid(findings, found)));
    if (context.json) context.answer(findings);
    else for (const finding of findings) context.answer(line(finding));
    return findings.some((finding) => finding.state === 'fail') ? 1 : 0;
  },
};

function checksOf(only: Context['options'][string]): readonly Check[] {
  const of_service = mayBeAnother() ? [service] : OF_SERVICE;
  if (only === undefined) return [...OF_MACHINE, ...of_service];
  if (only === 'machine') return OF_MACHINE;
  if (only === 'service') return [node, environment, ...of_service];
  throw new UsageError('--only must be machine or service');
}

/** With a mistake in its address, or in the name of that variable, another database than the service's would be looked at. */
function mayBeAnother(): boolean {
  const { config, problems } = soundConfig();
  return problems.some(
    (problem) => OF_ADDRESS.test(problem) || (config.database_url === null && OF_OWN.test(problem)),
  );
}

const OF_ADDRESS = /^\w*DATABASE(?!_POOL)/;
/** Without an address: of the folder of its own database, or of a name that may have been meant for an address. */
const OF_OWN = /^RUNLEDGER_STATE_DIR:|^\w+: no such variable/;

const service: Check = {
  name: 'service',
  look: async () => [
    warn('service', 'not looked at: its database may be another one', 'correct the environment'),
  ],
};

/** One reason may fail many checks: a database that is away, or of another version. */
const isSaid = (findings: readonly Finding[], { state, found, remedy }: Finding): boolean =>
  state === 'fail' && findings.some((one) => one.found === found && one.remedy === remedy);

async function lookAt(check: Check, context: Context): Promise<Finding[]> {
  try {
    return await check.look(context);
  } catch (error) {
    return [failed(check.name, error, OF_MACHINE.includes(check) ? null : databaseRemedy(error))];
  }
}

function line(finding: Finding): string {
  const head = `${finding.state.padEnd(4)}  ${finding.check.padEnd(20)}  ${finding.found}`;
  return finding.remedy ? `${head}\n${' '.repeat(28)}-> ${finding.remedy}` : head;
}
