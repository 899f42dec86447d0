/**
 * The three headers of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com).
 *
 * The signature covers exactly the bytes that are sent. The key is the secret as the caller wrote it
 * (its UTF-8 bytes). A secret of the form `whsec_<base64>` gets a second signature with the decoded
 * key, because the public libraries verify with that one. A receiver may verify either.
 */
import { createHmac } from 'node:crypto';
import { decodedKey } from '../domain/webhook_secret.ts';

export type SignatureHeaders = {
  'webhook-id': string;
  'webhook-timestamp': string;
  'webhook-signature': string;
};

export type Signable = { id: string; at: Date; body: Uint8Array; secret: string };

export function signatureHeaders({ id, at, body, secret }: Signable): SignatureHeaders {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const signatures = signingKeys(secret).map((key) => {
    const mac = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body);
    return `v1,${mac.digest('base64')}`;
  });
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}

function signingKeys(secret: string): Buffer[] {
  const written = Buffer.from(secret, 'utf8');
  const decoded = decodedKey(secret);
  return decoded === null ? [written] : [written, decoded];
}
