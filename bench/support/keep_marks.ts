/** Loaded into web and worker (--import): writes each mark with its time to MARKS_FOLDER when the process ends. */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MARKS } from '../../src/marks.ts';

const folder = process.env['MARKS_FOLDER'];
if (folder !== undefined) {
  const marks: [string, number][] = [];
  // One clock for all processes of a machine.
  subscribe(MARKS, (moment) => {
    marks.push([moment as string, Number(process.hrtime.bigint())]);
  });
  process.once('exit', () => {
    if (marks.length > 0) writeFileSync(join(folder, `${process.pid}.json`), JSON.stringify(marks));
  });
}
