import { isUuid, UsageError, type Word } from './command.ts';

export const KEY_ID: Word = {
  name: 'ID',
  help: 'the id of a key, as `./runledger keys list` shows it',
};

export function keyId(word: string): string {
  if (isUuid(word)) return word;
  throw new UsageError(`not the id of a key: ${word}; \`./runledger keys list\` shows the ids`);
}
