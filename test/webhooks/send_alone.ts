/** Makes one attempt in its own process, for tests of environment variables. */
import { sendWebhook } from '../../src/webhooks/send.ts';

const { url, ca } = JSON.parse(process.argv[2]!) as { url: string; ca: string[] };
const attempt = await sendWebhook(
  { url, headers: {}, body: Buffer.from('{}'), at: new Date() },
  {
    allow_loopback: true,
    ca,
    signal: new AbortController().signal,
    resolve: async () => ({ kind: 'addresses', addresses: ['127.0.0.1'] }),
  },
);
console.log(JSON.stringify(attempt));
