/** draw.ts FOLDER: the picture of README, from the reports of one `make bench` in this folder. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picture } from './picture.ts';
import type { Report } from './report.ts';

const folder = process.argv[2]!;
const report = (bench: string): Report | null => {
  const file = join(folder, `${bench}.json`);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
};
const service = report('service');
if (service) {
  const drawn = picture(service.at.slice(0, 10), service.measures, report('fleet')?.measures ?? []);
  writeFileSync(join(folder, 'service.svg'), drawn);
}
