/** The texts of `--help`, made from what the commands declare. */
import type { Command, Option } from './command.ts';
import { commands, commandsOf } from './command_table.ts';
import { columns } from './table.ts';

/** How users start the command line from a clone. */
const PROGRAM = './runledger';

export function usageOf(name: string, { words = [], options = {} }: Command): string {
  const flags = Object.entries(options).map(([option, declared]) => flagUsage(option, declared));
  return [
    PROGRAM,
    name,
    ...words.map(({ name: word, optional }) => (optional ? `[${word}]` : word)),
    ...flags,
  ].join(' ');
}

export const seeHelp = (name = '') =>
  `see \`${[PROGRAM, name, '--help'].filter(Boolean).join(' ')}\``;

export function commandHelp(name: string, command: Command): string {
  const { words = [], options = {}, statuses = [], summary, example } = command;
  const lines = [
    ...words.map(({ name, help }) => [name, help]),
    ...Object.entries(options).map(([option, declared]) => [
      flag(option, declared),
      described(declared),
    ]),
    ['--help', 'print this help'],
  ];
  return [
    `usage: ${usageOf(name, command)}`,
    '',
    sentence(summary),
    '',
    indented(columns(lines)),
    '',
    ...(statuses.length === 0 ? [] : ['exit status:', indented(columns(statuses)), '']),
    `example: ${PROGRAM} ${example}`,
    '',
  ].join('\n');
}

export async function groupHelp(group: string): Promise<string> {
  const listed = await Promise.all(commandsOf(group).map(summaryLine));
  const first = await commands[commandsOf(group)[0]!]!();
  return [
    `usage: ${PROGRAM} ${group} COMMAND`,
    '',
    ...listed,
    '',
    `example: ${PROGRAM} ${first.command.example}`,
    `Options of a command: ${PROGRAM} ${commandsOf(group)[0]} --help`,
    '',
  ].join('\n');
}

export async function overview(): Promise<string> {
  const listed = await Promise.all(Object.keys(commands).map(summaryLine));
  return [
    `usage: ${PROGRAM} COMMAND`,
    '',
    'Runledger runs submitted source code and keeps a provable record of every run.',
    '',
    ...listed,
    '',
    indented(
      columns([
        ['--help', 'print this help, or the help of a command or a group'],
        ['--version', 'print the version'],
      ]),
    ),
    '',
    `example: ${PROGRAM} keys create --help`,
    '',
  ].join('\n');
}

async function summaryLine(name: string): Promise<string> {
  const { command } = await commands[name]!();
  return `  ${usageOf(name, command)}\n      ${command.summary}`;
}

const flag = (name: string, { value }: Option) => (value ? `--${name} ${value}` : `--${name}`);

const flagUsage = (name: string, option: Option) =>
  option.required ? flag(name, option) : `[${flag(name, option)}]`;

function described({ help, required, default: preset }: Option): string {
  if (required) return `${help} (required)`;
  return preset === undefined ? help : `${help} (default: ${preset})`;
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}.`;
const indented = (text: string) => text.replace(/^/gm, '  ');
