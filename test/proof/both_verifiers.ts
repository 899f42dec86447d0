/** Checks a receipt with `./runledger check-receipt`'s rules and with the verifier in Python, which shares no code with them. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { UsageError } from '../../src/cli/command.ts';
import { parseRecord } from '../../src/cli/commands/check_receipt_command.ts';
import { readText } from '../../src/cli/read_text.ts';
import { parsePolicy } from '../../src/proof/policy.ts';
import { parseReceipt } from '../../src/proof/receipt.ts';
import { checkReceipt, type ReceiptReport } from '../../src/proof/receipt_check.ts';

/** As it came over HTTP, and as a test may change it. */
export type AnyReceipt = {
  events: { index: number; entry: string; proof: string }[];
  openings: Record<string, { salt: string }>;
};
// biome-ignore lint/suspicious/noExplicitAny: manipulated records have any shape
export type AnyRecord = Record<string, any>;
export type Case = { receipt: AnyReceipt; record: AnyRecord | null; policy: string };
/** The files themselves, where they are not the usual text of these values. */
export type Files = { receipt?: string | Buffer; record?: string; policy?: string | Buffer };

// biome-ignore lint/suspicious/noExplicitAny: the part of tap's `t` that is used here
type Check = (found: any, wanted: any, message: string) => unknown;
type Test = { equal: Check; match: Check; teardown(work: () => unknown): void };

/** One process for all cases: it takes the paths of the files as a line of JSON, and answers with the exit and the text. */
const DRIVER = `
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import receipt_verifier
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = receipt_verifier.main(*json.loads(line))
    print(json.dumps([status, printed.getvalue().strip()]), flush=True)
`;

export function bothVerifiers(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-receipts-'));
  const child = spawn('python3', ['-I', '-c', DRIVER, import.meta.dirname], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  t.teardown(() => {
    child.kill();
    rmSync(folder, { recursive: true });
  });

  function written({ receipt, record, policy }: Case, files: Files): string[] {
    const file = (name: string, text: string | Buffer) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const paths = [
      file('receipt.json', files.receipt ?? JSON.stringify(receipt)),
      file('policy.txt', files.policy ?? policy),
    ];
    const given = files.record ?? (record && JSON.stringify(record));
    if (given !== null) paths.push(file('record.json', given));
    return paths;
  }

  async function python(paths: readonly string[]): Promise<[number, string]> {
    child.stdin.write(`${JSON.stringify(paths)}\n`);
    return JSON.parse((await lines.next()).value!);
  }

  async function ours([receipt, policy, record]: readonly string[]): Promise<ReceiptReport> {
    return checkReceipt(await readText(receipt!, 'receipt', parseReceipt), {
      policy: await readText(policy!, 'policy', parsePolicy),
      record: record === undefined ? null : await readText(record, 'record', parseRecord),
    });
  }

  return {
    async proven(name: string, given: Case, files: Files = {}): Promise<void> {
      const paths = written(given, files);
      const report = await ours(paths);
      t.equal(report.verdict, 'proven', `${name}: ${report.problems.join('; ')}`);
      const [status, says] = await python(paths);
      t.equal(status, 0, `${name}, in Python: ${says}`);
    },
    async wrong(name: string, given: Case, why?: RegExp, files: Files = {}): Promise<void> {
      const paths = written(given, files);
      const report = await ours(paths);
      t.equal(report.verdict, 'wrong', `${name}: ${report.problems[0]}`);
      if (why) t.match(report.problems.join('\n'), why, name);
      const [status, says] = await python(paths);
      t.equal(status, 1, `${name}, in Python: ${says}`);
    },
    async unusable(name: string, given: Case, files: Files): Promise<void> {
      const paths = written(given, files);
      const error: unknown = await ours(paths).catch((thrown: unknown) => thrown);
      t.equal(error instanceof UsageError, true, `${name}: ${error}`);
      const [status, says] = await python(paths);
      t.equal(status, 2, `${name}, in Python: ${says}`);
    },
  };
}
