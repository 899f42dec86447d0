#!/usr/bin/env node
/** The command line: finds the command in the table, reads its options, and turns errors into one line. */
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.ts';
import { isAway } from '../db.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { commands } from './commands.ts';
import { createContext } from './context.ts';

const OK = 0;
const NOT_WELL = 1;
const USAGE = 2;

async function main(argv: readonly string[]): Promise<number> {
  const name = [argv.slice(0, 2).join(' '), argv[0] ?? ''].find((words) =>
    Object.hasOwn(commands, words),
  );
  if (!name) return overview(argv);
  const command = await commands[name]!();
  const rest = argv.slice(name.split(' ').length);
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(`runledger ${name} ${command.usage}\n\n${command.summary}\n`);
    return OK;
  }
  const { context, close } = createContext(parse(name, command, rest));
  try {
    return await command.run(context);
  } finally {
    await close();
  }
}

function parse(name: string, command: Command, args: readonly string[]) {
  const usage = `usage: runledger ${name} ${command.usage}`;
  const [min, max] = command.words ?? [0, 0];
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...command.options, json: { type: 'boolean' } },
      allowPositionals: true,
    });
    if (positionals.length < min || positionals.length > max) throw new Error('');
    return { words: positionals, options: values as Record<string, string | boolean | undefined> };
  } catch (error) {
    // Node's message ends in advice about `--` that confuses here.
    const reason = (error as Error).message.split('. To specify')[0]!;
    throw new UsageError(reason ? `${reason}\n${usage}` : usage);
  }
}

async function overview(argv: readonly string[]): Promise<number> {
  const asked = argv.length > 0 && ['help', '--help', '-h'].includes(argv[0]!);
  const lines = await Promise.all(
    Object.entries(commands).map(async ([name, load]) => {
      const { usage, summary } = await load();
      return `  runledger ${`${name} ${usage}`.trimEnd()}\n      ${summary}`;
    }),
  );
  const text = `runledger runs submitted code and keeps a provable record\n\n${lines.join('\n')}\n`;
  if (asked) {
    process.stdout.write(text);
    return OK;
  }
  const unknown = argv.length > 0 ? `no such command: ${argv.join(' ')}\n\n` : '';
  process.stderr.write(unknown + text);
  return USAGE;
}

function report(error: unknown): number {
  if (error instanceof UsageError || error instanceof ConfigError) {
    process.stderr.write(`${error.message}\n`);
    return USAGE;
  }
  if (error instanceof CommandFailed) {
    process.stderr.write(`${error.message}\n`);
    return NOT_WELL;
  }
  const { code, message } = error as { code?: unknown; message?: string };
  // Refused by the database with a code of ours, or the database is not there: no stack explains more.
  if ((typeof code === 'string' && code.startsWith('RL')) || isAway(error)) {
    process.stderr.write(`${message}\n`);
    return NOT_WELL;
  }
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return NOT_WELL;
}

// A reader that stops early (`| head`) is no fault of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(OK);
});
process.exitCode = await main(process.argv.slice(2)).catch(report);
