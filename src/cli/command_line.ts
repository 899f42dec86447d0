/** The command line: finds the command, reads its options, runs it, and reports an error in one line. */
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.ts';
import { isAnswer } from '../db_errors.ts';
import { printable, printableText } from '../domain/printable.ts';
import { faultLine, faultOf } from '../fault.ts';
import { keepIgnoringHangups } from '../processes/stop_request.ts';
import { DamagedTree } from '../proof/tiles.ts';
import { CannotSeal } from '../store/cannot_seal.ts';
import { versionOf } from '../version.ts';
import { type Command, CommandFailed, INTERRUPTED, Interrupted, UsageError } from './command.ts';
import { createContext } from './command_context.ts';
import { commands, commandsOf, isGroup } from './command_table.ts';
import { databaseRemedy } from './database_remedy.ts';
import { commandHelp, groupHelp, overview, seeHelp, usageOf } from './help.ts';

const OK = 0;
const FAILED = 1;
const USAGE = 2;
/** The status of a failure, by the command that runs. */
let failed = FAILED;

export async function main(argv: readonly string[]): Promise<number> {
  forgetLibpq(process.env);
  keepIgnoringHangups();
  process.stdout.on('error', outputLost);
  // There is nowhere left to say it.
  process.stderr.on('error', () => {});
  return run(argv).catch(report);
}

/**
 * The clients would complete an address from PGHOST, PGUSER, PGPASSWORD and others, each from its own. An address says all, so
 * that a command, and a process that gets only what it needs (environment.ts), connect to the same database.
 */
function forgetLibpq(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(env)) if (/^PG[A-Z_]+$/.test(name)) delete env[name];
}

function outputLost(error: NodeJS.ErrnoException): void {
  // A reader may stop early (`| head`). That is not an error, and the status is the command's own.
  if (error.code === 'EPIPE') return;
  if (is_lost) return;
  is_lost = true;
  process.stderr.write(`the output could not be written: ${faultLine(error)}\n`);
  // The command does its work to the end. Its own status may come before this error or after it.
  process.once('exit', () => {
    process.exitCode = failed;
  });
}
let is_lost = false;

function serviceOutputLost(error: Error, name: string): void {
  if (is_lost) return;
  is_lost = true;
  const line = `the output could not be written: ${faultLine(error)}; the service goes on`;
  const key = '; if a key was in it, make another one with `./runledger keys create`';
  process.stderr.write(`${line}${name === 'serve' ? key : ''}\n`);
}

async function run(argv: readonly string[]): Promise<number> {
  const [first = '', second = ''] = argv;
  const name = [`${first} ${second}`, first].find((words) => Object.hasOwn(commands, words));
  if (name === undefined) return withoutCommand(first, second);
  const { command } = await commands[name]!();
  failed = command.failed ?? FAILED;
  const args = argv.slice(name.split(' ').length);
  if (args.some(isHelp)) return print(commandHelp(name, command));
  if (command.service) {
    process.stdout.off('error', outputLost);
    process.stdout.on('error', (error) => serviceOutputLost(error, name));
  }
  const { context, close } = createContext(parse(name, command, args), command);
  try {
    return await command.run(context);
  } finally {
    await close();
  }
}

const isHelp = (word: string) => word === '--help' || word === '-h';

async function withoutCommand(first: string, second: string): Promise<number> {
  if (isHelp(first) || first === 'help') return print(await overview());
  if (first === '--version') return print(`runledger ${await versionOf()}\n`);
  if (first === '') {
    process.stderr.write(await overview());
    return USAGE;
  }
  if (!isGroup(first)) throw new UsageError(`no such command: ${first}; ${seeHelp()}`);
  if (isHelp(second)) return print(await groupHelp(first));
  const known = commandsOf(first).map((name) => name.slice(first.length + 1));
  const problem = second ? `no such command: ${first} ${second}` : `${first}: no command given`;
  throw new UsageError(`${problem} (${known.join(', ')}); ${seeHelp(first)}`);
}

function print(text: string): number {
  process.stdout.write(text);
  return OK;
}

function parse(name: string, command: Command, args: readonly string[]) {
  const { words = [] } = command;
  const required = words.filter(({ optional }) => !optional).length;
  const { values, positionals } = parsed(name, command, args);
  if (positionals.length < required || positionals.length > words.length) {
    throw new UsageError(`usage: ${usageOf(name, command)}; ${seeHelp(name)}`);
  }
  for (const [option, { required }] of Object.entries(command.options ?? {})) {
    if (required && !values[option])
      throw new UsageError(`--${option} is missing; ${seeHelp(name)}`);
  }
  return { words: positionals, options: values };
}

function parsed(name: string, { options = {} }: Command, args: readonly string[]) {
  const declared = Object.entries(options).map(([option, { value, default: preset }]) => [
    option,
    { type: value ? 'string' : 'boolean', ...(preset !== undefined && { default: preset }) },
  ]);
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: Object.fromEntries(declared) as Record<string, { type: 'string' | 'boolean' }>,
      allowPositionals: true,
    });
    return { values: values as Record<string, string | boolean | undefined>, positionals };
  } catch (error) {
    // Node's message goes on with advice about `--` that does not help here.
    const [problem] = (error as Error).message.split(/\. To specify|\n/);
    throw new UsageError(`${problem}; ${seeHelp(name)}`);
  }
}

function report(error: unknown): number {
  if (error instanceof UsageError || error instanceof ConfigError) {
    process.stderr.write(`${printableText(error.message)}\n`);
    return USAGE;
  }
  process.stderr.write(`${problemOf(error)}\n`);
  return error instanceof Interrupted ? INTERRUPTED : failed;
}

/**
 * One line where the line explains everything: our own errors, faults of the machine, and a database that rejects a call or is
 * away. Of others the stack comes first: a message, which may be of others, must not look like our last line.
 */
function problemOf(error: unknown): string {
  // Each of its lines was made printable.
  if (error instanceof CommandFailed) return printableText(error.message);
  if (!(error instanceof Error)) return printable(String(error));
  const { code, message } = error as { code?: unknown } & Error;
  const ours = typeof code === 'string' && code.startsWith('RL');
  if (error instanceof CannotSeal || error instanceof DamagedTree || ours)
    return printable(message);
  const remedy = databaseRemedy(error);
  const and_so = remedy === null ? '' : `: ${remedy}`;
  if (isAnswer(error)) return printable(`PostgreSQL answered: ${message}${and_so}`);
  if (remedy !== null) return printable(`${message}${and_so}`);
  if (faultOf(error) !== null) return printable(faultLine(error));
  return [...framesOf(error), printable(`${error.name}: ${message}`)].join('\n');
}

function framesOf({ stack = '', name, message }: Error): string[] {
  const [, after = ''] = stack.split(`${name}: ${message}`);
  return after
    .split('\n')
    .filter((line) => /^ +at /.test(line))
    .map(printable);
}
