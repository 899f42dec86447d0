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

const AGAIN = 'trying again for two minutes';

/**
 * Why a submission is sent again, on the spinner. Without a terminal it is said once: a wait of minutes must not be silent.
 * The function gets the word of the error; null once the submission is accepted.
 */
export function sayRetries(
  spinner: Spinner,
  doing: string,
  say: (line: string) => void,
): (word: string | null) => void {
  let is_said = process.stderr.isTTY;
  return (word) => {
    spinner.say(word === null ? doing : `${word}: ${AGAIN}`);
    if (word === null || is_said) return;
    is_said = true;
    say(`not accepted yet (${word}): ${AGAIN}`);
  };
}

const ASKING =
  'interrupted: waiting for the answer whether it was accepted; Ctrl-C again ends at once';

/** On the spinner; without a terminal, as a line. */
export function sayAsking(spinner: Spinner, say: (line: string) => void): () => void {
  return () => (process.stderr.isTTY ? spinner.say(ASKING) : say(ASKING));
}
