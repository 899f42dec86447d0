/** Makes the context of a command: its configuration, its output and its connections. */
import { loadConfig } from '../config.ts';
import { printable, printableText } from '../domain/printable.ts';
import type { Command, Context } from './command.ts';

type Given = { words: readonly string[]; options: Context['options'] };

/** Everything that the context opens is closed by `close`, in reverse order. */
export function createContext(
  given: Given,
  { creates = 'never', config: read = () => loadConfig() }: Pick<Command, 'creates' | 'config'>,
): { context: Context; close(): Promise<void> } {
  const opened: (() => Promise<void>)[] = [];
  const say = (line: string) => void process.stderr.write(`${printable(line)}\n`);
  const config = once(read);
  const opening = once(async () => {
    const { commandDatabase } = await import('./command_database.ts');
    return commandDatabase({ config: config(), creates, say, opened });
  });
  const context: Context = {
    ...given,
    json: given.options['json'] === true,
    env: process.env,
    // Read on first use: `./runledger config` must work with an invalid environment.
    get config() {
      return config();
    },
    answer: (value) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
      process.stdout.write(`${printableText(text)}\n`);
    },
    say,
    database: async (options) => (await opening()).database(options),
    address: async (role) => (await opening()).address(role),
  };
  const close = async () => {
    for (const end of opened.reverse()) await end();
  };
  return { context, close };
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
