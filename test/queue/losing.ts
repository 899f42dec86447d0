import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

type Loss = 'cut' | 'silent';

/** A proxy in front of the database that loses one answer: the first that has the text, as the fetch of a job has its id. */
export async function losing(t: { teardown(work: () => unknown): void }, url: string) {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let lost = 0;
  let armed: { text: string; how: Loss } | null = null;
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    let mute = false;
    near.on('data', (bytes) => far.write(bytes));
    far.on('data', (bytes) => {
      if (armed !== null && bytes.includes(armed.text)) {
        lost += 1;
        if (armed.how === 'cut') near.destroy();
        mute = true;
        armed = null;
      }
      if (!mute) near.write(bytes);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const here = new URL(url);
  here.hostname = '127.0.0.1';
  here.port = String((server.address() as AddressInfo).port);
  return {
    url: here.href,
    lost: () => lost,
    lose(text: string, how: Loss) {
      armed = { text, how };
    },
  };
}
