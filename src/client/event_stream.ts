/** The events of a submission, read from the service's event stream, across cuts of the connection. */
import { setTimeout as wait } from 'node:timers/promises';

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

/** What the program has just written. Pieces can be missing: the record has all. */
export type OutputData = {
  attempt: number;
  stream: 'stdout' | 'stderr';
  /** the place of its first byte in all that the attempt wrote to the stream */
  at: number;
  text: string;
};

type LastEvent = 'completed' | 'failed' | 'cancelled';

const LAST: readonly string[] = ['completed', 'failed', 'cancelled'];
const PAUSE_MS = 1_000;

/** `open` begins the stream behind an event, and throws where it cannot. */
export async function* eventsFrom(
  open: (after: number) => Promise<Response>,
  after: number,
): AsyncGenerator<SubmissionEvent, void> {
  for (let last = after; ; ) {
    const response = await open(last);
    // There is nothing behind that event, and there will be nothing.
    if (response.status === 204) return;
    try {
      for await (const message of messagesOf(response)) {
        yield message;
        last = message.id ?? last;
        if (LAST.includes(message.event)) return;
      }
    } catch (error) {
      // A connection that was cut; the stream goes on behind the last event.
      if ((error as Error).name === 'AbortError') throw error;
    }
    await wait(PAUSE_MS);
  }
}

async function* messagesOf({ body }: Response): AsyncGenerator<SubmissionEvent> {
  let text = '';
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
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
