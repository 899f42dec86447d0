/** One line on the terminal that says what is going on. */
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 80;
/** Most runs are over before the spinner would appear. */
const FIRST_FRAME_MS = 200;

export type Spinner = {
  /** What it says from now on. */
  say(text: string): void;
  stop(): void;
};

/** Only on a terminal: in a pipe or a file it would be noise. */
export function startSpinner(text: string): Spinner {
  const { stderr } = process;
  if (!stderr.isTTY) return { say() {}, stop() {} };
  let said = text;
  const began = performance.now();
  let frame = 0;
  const timer = setInterval(() => {
    if (performance.now() - began < FIRST_FRAME_MS) return;
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    stderr.write(`\r\x1b[K${FRAMES[frame++ % FRAMES.length]} ${said}, ${seconds} s `);
  }, FRAME_MS);
  return {
    say(next) {
      said = next;
    },
    stop() {
      clearInterval(timer);
      if (frame > 0) stderr.write('\r\x1b[K');
    },
  };
}
