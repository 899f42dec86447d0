/**
 * A real browser without a window, for tests of pages: Chromium, driven by its DevTools protocol over two pipes. It resolves no name,
 * so it reaches only addresses of this machine.
 */
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { eventually } from './eventually.ts';
import { spawnBound } from './spawn_bound.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** Null where this machine has none. */
export const findBrowser = (): string | null =>
  (process.env['PATH'] ?? '')
    .split(':')
    .flatMap((folder) => NAMES.map((name) => join(folder, name)))
    .find((path) => existsSync(path)) ?? null;

const FLAGS = [
  '--headless=new',
  '--remote-debugging-pipe',
  '--no-sandbox',
  '--no-first-run',
  '--no-proxy-server',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
];

type Test = { teardown(work: () => unknown): void };

export type View = { width: number; height: number; dark?: boolean };

export type Page = {
  /** Resolves when the page has loaded. */
  open(url: string): Promise<void>;
  /** The value of an expression in the page. */
  read<T>(expression: string): Promise<T>;
  /** Resolves when the expression is true; throws if it never is. */
  until(expression: string): Promise<void>;
  view(view: View): Promise<void>;
  /** Types into what has the focus. */
  type(text: string): Promise<void>;
  press(key: 'Tab' | 'Enter' | 'Space'): Promise<void>;
  /** Writes a PNG of the whole page. */
  picture(file: string): Promise<void>;
  /** What the browser complained of: errors of scripts, what a policy forbade, requests that failed. */
  readonly complaints: string[];
  /** The addresses of all requests. */
  readonly requests: string[];
};

export async function browserPage(t: Test): Promise<Page> {
  const browser = findBrowser();
  if (browser === null) throw new Error('no browser on this machine');
  const folder = await mkdtemp(join(tmpdir(), 'runledger-browser-'));
  const child = spawnBound(browser, [...FLAGS, `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: folder },
  });
  t.teardown(async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  const protocol = protocolOf(child);
  const { targetId } = await protocol.send('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await protocol.send('Target.attachToTarget', { targetId, flatten: true });
  return pageOf(protocol, String(sessionId));
}

type Params = Record<string, unknown>;
// biome-ignore lint/suspicious/noExplicitAny: the protocol's answers are of many shapes
type Answer = any;
type Message = { id?: number; method?: string; params?: Params; result?: Params; error?: Params };

type Protocol = {
  send(method: string, params?: Params, sessionId?: string): Promise<Answer>;
  onEvent(handler: (method: string, params: Answer) => void): void;
};

/** Messages are JSON with a zero byte after each. */
function protocolOf(child: ChildProcess): Protocol {
  const [, , , input, output] = child.stdio as unknown as [null, null, null, Writable, Readable];
  const waiting = new Map<number, { resolve(value: Answer): void; reject(error: Error): void }>();
  let handle: (method: string, params: Answer) => void = () => {};
  let count = 0;
  let rest = '';
  output.setEncoding('utf8').on('data', (text: string) => {
    const messages = (rest + text).split('\0');
    rest = messages.pop()!;
    for (const message of messages) receive(JSON.parse(message) as Message);
  });
  input.on('error', () => {});
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the browser has ended'));
  });
  function receive({ id, method, params, result, error }: Message): void {
    if (method !== undefined) handle(method, params);
    if (id === undefined) return;
    const asked = waiting.get(id);
    waiting.delete(id);
    if (error) asked?.reject(new Error(JSON.stringify(error)));
    else asked?.resolve(result);
  }
  return {
    send: (method, params = {}, sessionId) =>
      new Promise((resolve, reject) => {
        count += 1;
        waiting.set(count, { resolve, reject });
        input.write(`${JSON.stringify({ id: count, method, params, sessionId })}\0`);
      }),
    onEvent: (handler) => {
      handle = handler;
    },
  };
}

const KEYS = {
  Tab: { text: '\t', code: 9 },
  Enter: { text: '\r', code: 13 },
  Space: { text: ' ', code: 32 },
} as const;

async function pageOf(protocol: Protocol, session: string): Promise<Page> {
  const send = (method: string, params?: Params) => protocol.send(method, params, session);
  const complaints: string[] = [];
  const requests: string[] = [];
  let loaded: () => void = () => {};
  protocol.onEvent((method, params) => {
    if (method === 'Page.loadEventFired') loaded();
    if (method === 'Runtime.exceptionThrown')
      complaints.push(JSON.stringify(params.exceptionDetails.exception?.description));
    if (method === 'Log.entryAdded' && ['error', 'warning'].includes(params.entry.level))
      complaints.push(`${params.entry.source}: ${params.entry.text} ${params.entry.url ?? ''}`);
    if (method === 'Network.requestWillBeSent') requests.push(params.request.url);
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await send(`${domain}.enable`);
  async function read<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await send('Runtime.evaluate', {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return result.value as T;
  }
  return {
    complaints,
    requests,
    read,
    async open(url) {
      const arrived = new Promise<void>((resolve) => {
        loaded = resolve;
      });
      const { errorText } = await send('Page.navigate', { url });
      if (errorText) throw new Error(`${url}: ${errorText}`);
      await arrived;
    },
    async until(expression) {
      // While another page comes, nothing can be read.
      const held = await eventually(() => read<boolean>(expression).catch(() => false));
      if (!held) throw new Error(`never true: ${expression}`);
    },
    async view({ width, height, dark = false }) {
      const mobile = width < 500;
      await send('Emulation.setDeviceMetricsOverride', {
        ...{ width, height, mobile, deviceScaleFactor: 1 },
      });
      await send('Emulation.setEmulatedMedia', {
        features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }],
      });
    },
    type: (text) => send('Input.insertText', { text }),
    async press(key) {
      const { text, code: windowsVirtualKeyCode } = KEYS[key];
      const what = { key: text === ' ' ? text : key, code: key, windowsVirtualKeyCode };
      await send('Input.dispatchKeyEvent', {
        type: 'keyDown',
        ...what,
        ...(key !== 'Tab' && { text }),
      });
      await send('Input.dispatchKeyEvent', { type: 'keyUp', ...what });
    },
    async picture(file) {
      const { data } = await send('Page.captureScreenshot', { captureBeyondViewport: true });
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, Buffer.from(data, 'base64'));
    },
  };
}
