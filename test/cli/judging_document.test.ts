/**
 * The worked examples of JUDGING.md: its files are written as they are printed there, its commands are run, and they print
 * what the document says, but for times, sizes and ids.
 */
// needs: isolation
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { runProgram } from './command_line.ts';
import { judgingService } from './judging_service.ts';

type Part =
  | { kind: 'file'; path: string; text: string }
  | { kind: 'commands'; lines: string[]; printed: string };

/** A file is a block behind its name; commands are a shell block, with the block behind it as what they print. */
function partsOf(document: string): Part[] {
  const part = /^`([^`\n]+)`:\n\n```\w*\n(.*?)^```$|^```sh\n(.*?)^```\n\n```\n(.*?)^```$/gms;
  return [...document.matchAll(part)].map(
    ([, path, text, commands, printed]): Part =>
      path === undefined
        ? { kind: 'commands', lines: commands!.trim().split('\n'), printed: printed! }
        : { kind: 'file', path, text: text! },
  );
}

const plain = (text: string) =>
  text
    .replace(/\d+\.\d+ (s|MiB)/g, 'N $1')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replace(/ {2,}/g, '  ')
    .trim()
    .split('\n');

/** The ids of the wrong set and of the corrected one stand for those that the service gave. */
async function withSets(line: string, env: NodeJS.ProcessEnv): Promise<string> {
  const [wrong, corrected] = line.match(/\bf[0-9a-f]{7}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g) ?? [];
  if (wrong === undefined || corrected === undefined) return line;
  const url = `${env['RUNLEDGER_SERVER']}/api/test-sets`;
  const answer = await fetch(url, { headers: { 'X-API-Key': env['RUNLEDGER_API_KEY']! } });
  const { test_sets } = (await answer.json()) as { test_sets: { id: string; name: string }[] };
  const [newest, before] = test_sets.filter(({ name }) => name === 'sum');
  return line.replace(wrong, before!.id).replace(corrected, newest!.id);
}

t.test('the examples', async (t) => {
  const parts = partsOf(readFileSync('JUDGING.md', 'utf8'));
  t.equal(parts.filter(({ kind }) => kind === 'file').length, 24);
  t.equal(parts.filter(({ kind }) => kind === 'commands').length, 6);
  const cwd = await mkdtemp(join(tmpdir(), 'runledger-examples-'));
  t.teardown(() => rm(cwd, { recursive: true }));
  await symlink(resolve('runledger'), join(cwd, 'runledger'));
  const env = await judgingService(t, {
    RUNLEDGER_LANGUAGES: 'python,cpp',
    RUNLEDGER_PRECOMPILED_HEADERS: 'off',
  });
  for (const part of parts) {
    if (part.kind === 'file') {
      await mkdir(dirname(join(cwd, part.path)), { recursive: true });
      await writeFile(join(cwd, part.path), part.text);
      continue;
    }
    let printed = '';
    for (const printed_line of part.lines) {
      const line = await withSets(printed_line, env);
      const { stdout, stderr } = await runProgram('sh', ['-c', line], { cwd, env });
      t.equal(stderr, '', line);
      printed += stdout;
    }
    t.strictSame(plain(printed), plain(part.printed), part.lines.join('; '));
  }
  // No program may make the validator fail.
  for (const bytes of [`'²'.encode()`, `b'1' * 5000`, `b'\\xff'`, `b'\\x00'`, `b'-1'`]) {
    const code = `import sys; sys.stdout.buffer.write(b'1 ' + ${bytes})`;
    await writeFile(join(cwd, 'hostile.py'), code);
    const line = './runledger judge hostile.py --package pair';
    const { stdout } = await runProgram('sh', ['-c', line], { cwd, env });
    t.match(stdout, /^sample\/1 +WA .* the output is not two numbers$/m, bytes);
  }
});
