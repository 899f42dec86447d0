/** The events of a submission, read from the service's event stream, across cuts of the connection. */

export type SubmissionEvent = {
  /** Null for progress and output, which are not in the log. */
  id: number | null;
} & (
  | {
      event: 'accepted' | 'started' | 'progress' | 'lost' | LastEvent;
      data: Record<string, unknown>;
    }
  | { event: 'output'; data: OutputData }
);

/** What the program has just written, in order. Pieces can be missing: the record has all. */
export type OutputData = {
  attempt: number;
  stream: 'stdout' | 'stderr';
  /** the place of its first byte in all that the attempt wrote to the stream */
  at: number;
  text: string;
};

type LastEvent = 'completed' | 'failed' | 'cancelled';

const LAST: readonly string[] = ['completed', 'failed', 'cancelled'];

type Connection = {
  /** A connection on which nothing came for so long is cut. */
  silence_ms: number;
  /** The pause before the stream is opened again. It throws where nobody wants that. */
  onCut: () => Promise<void>;
};

/** `open` begins the stream behind an event, and throws where it cannot. */
export async function* eventsFrom(
  open: (after: number) => Promise<Response>,
  after: number,
  { silence_ms, onCut }: Connection,
): AsyncGenerator<SubmissionEvent, void> {
  const shown = new Map<string, number>();
  for (let last = after; ; ) {
    const response = await open(last);
    // There is nothing behind that event, and there will be nothing.
    if (response.status === 204) return;
    try {
      for await (const message of messagesOf(textOf(response, silence_ms))) {
        if (message.event === 'output' && !isNew(message.data, shown)) continue;
        yield message;
        last = message.id ?? last;
        if (LAST.includes(message.event)) return;
      }
    } catch {
      // A connection that was cut; the stream goes on behind the last event.
    }
    await onCut();
  }
}

/** A stream that is opened again begins with the output of the last seconds. */
function isNew({ attempt, stream, at }: OutputData, shown: Map<string, number>): boolean {
  const name = `${attempt} ${stream}`;
  if (at <= (shown.get(name) ?? -1)) return false;
  shown.set(name, at);
  return true;
}

/** Ends with the connection, and throws where it is cut or silent. */
async function* textOf({ body }: Response, silence_ms: number): AsyncGenerator<string> {
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { promise: silence, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => reject(new Error('nothing came')), silence_ms);
      const { done, value } = await Promise.race([reader.read(), silence]).finally(() =>
        clearTimeout(timer),
      );
      if (done) return;
      yield value;
    }
  } finally {
    // What was cut cannot be cancelled.
    void reader.cancel().catch(() => {});
  }
}

async function* messagesOf(pieces: AsyncIterable<string>): AsyncGenerator<SubmissionEvent> {
  let text = '';
  for await (const chunk of pieces) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const fields = new Map(
        block.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]),
      );
      const [id, event, data] = ['id', 'event', 'data'].map((name) => fields.get(name));
      if (event === undefined || data === undefined) continue;
      yield {
        id: id === undefined ? null : Number(id),
        event,
        data: JSON.parse(data),
      } as SubmissionEvent;
    }
  }
}
