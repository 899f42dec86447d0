/** The chapter "Receipts" of AUDIT.md, from which others write verifiers, names every event and every field. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { currentSchemaOf, type EventType, eventTypes } from '../../src/domain/events.ts';
import { REQUEST_LIMITS } from '../../src/domain/limits.ts';
import { RESULT_SCHEMAS } from '../../src/domain/record.ts';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import { nextStatus } from '../../src/domain/submission_fold.ts';

const chapter = readFileSync('AUDIT.md', 'utf8').split('\n## Receipts\n')[1]!.split('\n## ')[0]!;

/** The rows of the table whose heading begins like this. */
function table(heading: string): string[][] {
  const from = chapter.indexOf(`\n| ${heading} |`);
  const rows = chapter
    .slice(from + 1)
    .split('\n\n')[0]!
    .split('\n')
    .slice(2);
  return rows.map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
const names = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

t.test('the events of a submission, their schemas and their statuses', async (t) => {
  const rows = table('type | schemas').flatMap(([types, ...rest]) =>
    names(types!).map((type) => [type as EventType, ...rest] as const),
  );
  const all = ['none', ...STATUS_NAMES] as const;
  const possible = (type: string) => all.filter((before) => nextStatus(before, type) !== null);
  t.same(
    rows.map(([type]) => type).sort(),
    Object.keys(eventTypes)
      .filter((type) => possible(type).length > 0)
      .sort(),
  );
  for (const [type, schemas, before, after] of rows) {
    t.equal(schemas!.split(', ').at(-1), String(currentSchemaOf(type)), type);
    const said =
      before === 'no events'
        ? ['none']
        : before === 'any but no events'
          ? STATUS_NAMES
          : before!.split(', ');
    t.same(possible(type), said, type);
    for (const status of possible(type))
      t.equal(nextStatus(status, type), after === 'the same' ? status : after, type);
  }
});

t.test('the fields of a record', async (t) => {
  const fields = chapter.split('**The record**')[1]!;
  const listed = fields
    .split('\n\n')[1]!
    .split('\n')
    .slice(2)
    .flatMap((row) => names(row.split('|')[1]!));
  t.same(listed.sort(), Object.keys(RESULT_SCHEMAS).sort());
  for (const { name, field } of REQUEST_LIMITS) {
    t.ok(fields.includes(`\`${name}\``), name);
    t.ok(fields.includes(`\`${field}\``), field);
  }
});
