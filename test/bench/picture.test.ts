import t from 'tap';
import { picture } from '../../bench/support/picture.ts';
import { against } from '../../bench/support/report.ts';

const service = [
  against('Python <hello>: p50', 'ms', 6.8, 8),
  against('  over something less', 'ms', 6.8, 5),
  against('Python <hello>: p99', 'ms', 9, 10),
  against('Python <hello>: rate', 'runs/s', 435, 244),
];
const history = [
  against('1,000 submissions in the log, over none: p50', 'ms', 5, 5),
  against('1,000,000 submissions in the log, over none: p50', 'ms', 6, 5),
  against('1,000 submissions in the log, over none: rate', 'runs/s', 400, 400),
  against('1,000,000 submissions in the log, over none: rate', 'runs/s', 380, 400),
];

const textsOf = (drawn: string) =>
  [...drawn.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, text]) => text!);

t.test('a panel for the time of a call, one for the rate, and one for a long history', (t) => {
  const texts = textsOf(picture('2026-01-01', service, history));
  t.equal(texts.filter((text) => text === 'Python &lt;hello&gt;').length, 2, 'p50 and rate');
  for (const text of ['6.80 (× 0.850)', '8.00', '435 (× 1.78)', '244'])
    t.ok(texts.includes(text), text);
  t.ok(texts.includes('one call 1.20') && texts.includes('runs/s 0.950'), 'at the longest history');
  t.ok(texts.includes('lower is better') && texts.includes('higher is better'));
  t.end();
});

t.test('a longer bar is a larger value', (t) => {
  const widths = [
    ...picture('', service, []).matchAll(/<rect class="(\w+)" x="250"[^>]*width="([\d.]+)"/g),
  ];
  const [ours, bare, our_rate, bare_rate] = widths.map(([, , width]) => Number(width));
  t.ok(ours! < bare! && our_rate! > bare_rate!);
  t.equal(widths.length, 4);
  t.end();
});

t.test('what was not measured has no panel', (t) => {
  const texts = textsOf(picture('', service, []));
  t.notOk(texts.some((text) => text.startsWith('A long history')));
  t.end();
});
