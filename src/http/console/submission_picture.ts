/**
 * What happened to a submission, as two pictures made from its events: when it waited and when it ran; and the attempts to deliver
 * its result, which can go on for days. Positions are parts of the width, so that texts keep their size on every screen.
 */

import { durationText } from '../../domain/units_text.ts';
import type { ShownEvent } from '../../store/console.ts';
import { type Html, html } from './markup.ts';

export type Phase = { kind: 'waiting' | 'running' | 'lost'; from_ms: number; to_ms: number };

const ENDS = ['submission.completed', 'submission.failed', 'submission.cancelled'];

/** From its acceptance to its end, without gaps. `now_ms` ends what has not ended. */
export function phasesOf(events: readonly ShownEvent[], now_ms: number): Phase[] {
  const phases: Phase[] = [];
  let open: { kind: 'waiting' | 'running'; from_ms: number } | null = null;
  for (const { type, at } of events) {
    const at_ms = Date.parse(at);
    const next = ENDS.includes(type) ? 'end' : NEXT[type];
    if (next === undefined) continue;
    if (open !== null)
      phases.push({ ...open, kind: type === 'execution.lost' ? 'lost' : open.kind, to_ms: at_ms });
    open = next === 'end' ? null : { kind: next, from_ms: at_ms };
  }
  if (open !== null) phases.push({ ...open, to_ms: Math.max(now_ms, open.from_ms) });
  return phases;
}

const NEXT: Readonly<Record<string, 'waiting' | 'running'>> = {
  'submission.accepted': 'waiting',
  'execution.started': 'running',
  'execution.lost': 'waiting',
};

const HEIGHT = 64;
const BAR = { y: 8, height: 24 };

export function runPicture(events: readonly ShownEvent[], now_ms: number): Html | null {
  const phases = phasesOf(events, now_ms);
  if (phases.length === 0) return null;
  const scale = scaleOf(phases[0]!.from_ms, phases.at(-1)!.to_ms);
  const bars = phases.map(({ kind, from_ms, to_ms }) => {
    const text = `${kind} ${durationText((to_ms - from_ms) * 1000)}`;
    return html`<rect class="${kind}" x="${scale.at(from_ms)}%" width="${scale.part(to_ms - from_ms)}%" y="${BAR.y}" height="${BAR.height}"><title>${text}</title></rect>`;
  });
  const words = phases.map(({ kind, from_ms, to_ms }) => ({
    kind,
    text: `${kind} ${durationText((to_ms - from_ms) * 1000)}`,
  }));
  const label = `It was ${words.map(({ text }) => text).join(', then ')}.`;
  return html`<figure>
${picture(label, bars, scale)}
<figcaption aria-hidden="true">${words.map(({ kind, text }) => html`<span class="${kind}">${text}</span> `)}</figcaption>
</figure>`;
}

/** Null: it has no webhook, or has not ended. */
export function deliveryPicture(events: readonly ShownEvent[]): Html | null {
  const own = events.filter(({ type }) => type.startsWith('delivery.'));
  const [first] = own;
  if (first === undefined) return null;
  const scale = scaleOf(Date.parse(first.at), Date.parse(own.at(-1)!.at));
  const marks = own.map(({ type, at, facts }) => {
    const outcome = String(facts['outcome'] ?? '');
    const kind = outcome === 'delivered' ? 'good' : type === 'delivery.requested' ? 'asked' : 'bad';
    return html`<circle class="${kind}" cx="${scale.at(Date.parse(at))}%" cy="${BAR.y + BAR.height / 2}" r="6"><title>${type} ${outcome}</title></circle>`;
  });
  return picture(`${own.length} events of its delivery.`, marks, scale);
}

type Scale = {
  at(time_ms: number): number;
  part(duration_ms: number): number;
  readonly length_ms: number;
};

/** The left and the right of a picture are free, so that marks at the ends are whole. */
const MARGIN = 2;

function scaleOf(from_ms: number, to_ms: number): Scale {
  const length_ms = Math.max(to_ms - from_ms, 0.001);
  const part = (ms: number) => Number(((ms / length_ms) * (100 - 2 * MARGIN)).toFixed(3));
  return {
    length_ms,
    part,
    at: (time_ms) => Number((MARGIN + part(time_ms - from_ms)).toFixed(3)),
  };
}

const TICKS = [0, 0.5, 1] as const;
const ANCHORS = ['start', 'middle', 'end'] as const;

const picture = (label: string, marks: readonly Html[], { length_ms }: Scale) =>
  html`<svg class="timeline" role="img" aria-label="${label}" width="100%" height="${HEIGHT}">
<title>${label}</title>
<line x1="${MARGIN}%" x2="${100 - MARGIN}%" y1="${BAR.y + BAR.height / 2}" y2="${BAR.y + BAR.height / 2}"></line>
${marks}
${TICKS.map((tick, n) => html`<text x="${MARGIN + tick * (100 - 2 * MARGIN)}%" y="${HEIGHT - 12}" text-anchor="${ANCHORS[n]!}">+${durationText(tick * length_ms * 1000)}</text>`)}
</svg>`;
