import { readFileSync } from 'node:fs';
import t from 'tap';
import { stateChart } from '../../src/store/state_chart.ts';
import { world } from './world.ts';

const ARCHITECTURE = new URL('../../ARCHITECTURE.md', import.meta.url);

t.test('ARCHITECTURE.md shows the states and the reasons that SQL has', async (t) => {
  const { db } = await world(t);
  const chart = await stateChart(db);
  const [, shown] = /<!-- states: .*-->\n([\s\S]*?)\n<!-- end of states -->/.exec(
    readFileSync(ARCHITECTURE, 'utf8'),
  ) ?? [null, null];
  t.equal(shown, chart, 'put the output of ./runledger states between the marks');
  t.match(chart, /^ {2}running --> completed: submission\.completed$/m);
  t.match(chart, /^ {2}pending --> cancelled: submission\.cancelled$/m);
  t.match(chart, /^\| `worker_silent` \| no \| 20 \| /m);
});
