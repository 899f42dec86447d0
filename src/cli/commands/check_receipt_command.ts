/** Reads files and nothing else: no configuration, no database, no service. */
import { printable } from '../../domain/printable.ts';
import { parseStrictly } from '../../domain/strict_json.ts';
import { type Policy, parsePolicy } from '../../proof/policy.ts';
import { parseReceipt } from '../../proof/receipt.ts';
import { checkReceipt, type ReceiptReport } from '../../proof/receipt_check.ts';
import { type Command, type Context, JSON_OPTION, type Option } from '../command.ts';
import { readFileOf, readOption, readText } from '../read_text.ts';

/** What a customer may still have of a submission, and how the log calls it. */
const BYTES: Readonly<Record<string, Option>> = {
  code: { value: 'FILE', help: 'the code that was submitted' },
  stdin: { value: 'FILE', help: 'the input that was submitted; - is stdin' },
  'expected-output': { value: 'FILE', help: 'the expected output that was submitted' },
};

export const command: Command = {
  summary:
    'check a receipt and a record against a policy, offline; exit 0 only if the policy proves all of it, 2 for a file that cannot be read',
  words: [{ name: 'FILE', help: 'the receipt, as `./runledger receipt` prints it' }],
  options: {
    policy: {
      value: 'FILE',
      help: 'whom to believe; without it nothing is proven, and the exit is 1',
    },
    record: { value: 'FILE', help: 'the record, as GET /api/result/{id} or `run --json` gave it' },
    ...BYTES,
    json: JSON_OPTION,
  },
  example: 'check-receipt receipt.json --record record.json --policy policy.txt',
  async run(context) {
    const file = context.words[0]!;
    const receipt = await readText(file, file, parseReceipt);
    const report = checkReceipt(receipt, {
      policy: await readOption<Policy>(context, 'policy', parsePolicy),
      record: await readOption(context, 'record', parseRecord),
      bytes: await readBytes(context),
    });
    if (context.json) context.answer(report);
    else context.answer(linesOf(report).map(printable).join('\n'));
    return report.verdict === 'proven' ? 0 : 1;
  },
};

async function readBytes({ options }: Context): Promise<Record<string, Uint8Array>> {
  const bytes: Record<string, Uint8Array> = {};
  for (const name of Object.keys(BYTES)) {
    const path = options[name];
    if (typeof path === 'string')
      bytes[name.replaceAll('-', '_')] = await readFileOf(path, `--${name} ${path}`);
  }
  return bytes;
}

export function parseRecord(text: string): Record<string, unknown> {
  const record = parseStrictly(text);
  if (typeof record !== 'object' || record === null || Array.isArray(record))
    throw new Error('not a record: it is no JSON object');
  return record as Record<string, unknown>;
}

const LAST_LINE = {
  proven: 'proven',
  consistent: 'consistent, not proven',
  wrong: 'NOT PROVEN',
} as const;

function linesOf({ verdict, checked, unchecked, problems }: ReceiptReport): string[] {
  return [
    ...checked.map((line) => `checked: ${line}`),
    ...unchecked.map((line) => `not checked: ${line}`),
    ...problems.map((line) => `problem: ${line}`),
    LAST_LINE[verdict],
  ];
}
