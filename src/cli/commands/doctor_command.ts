/** Looks at this machine and this installation, one line for each check, with what to do about it. */
import type { Command, Context } from './command.ts';
import { databaseChecks } from './doctor_database.ts';
import { machineChecks } from './doctor_machine.ts';
import { toolchains } from './doctor_toolchains.ts';
import { type Check, type Finding, fail } from './finding.ts';

const checks: readonly Check[] = [...machineChecks, toolchains, ...databaseChecks];

export const doctor: Command = {
  usage: '[--json]',
  summary: 'look at this machine and installation; exit 1 where something is not well',
  async run(context) {
    const findings: Finding[] = [];
    for (const check of checks) findings.push(...(await lookAt(check, context)));
    if (context.json) context.answer(findings);
    else for (const finding of findings) context.answer(line(finding));
    return findings.some((finding) => finding.state === 'fail') ? 1 : 0;
  },
};

async function lookAt(check: Check, context: Context): Promise<Finding[]> {
  try {
    return await check.look(context);
  } catch (error) {
    return [fail(check.name, (error as Error).message.split('\n')[0]!, 'see the message')];
  }
}

function line(finding: Finding): string {
  const head = `${finding.state.padEnd(4)}  ${finding.check.padEnd(20)}  ${finding.found}`;
  return finding.remedy ? `${head}\n${' '.repeat(28)}-> ${finding.remedy}` : head;
}
