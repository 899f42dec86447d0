/**
 * Makes certificates with node:crypto alone, so that TLS tests need no openssl on the machine and no
 * files that expire. The DER is written by hand, because a certificate is only a dozen nested values.
 */
import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto';
import { isIP } from 'node:net';

export type Issuer = { name: string; key: KeyObject; pem: string };
export type Certificate = { cert: string; key: string };
type Subject = { hosts: string[]; not_after?: Date };

const OID = {
  ecdsa_sha256: [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
  common_name: [0x55, 0x04, 0x03],
  basic_constraints: [0x55, 0x1d, 0x13],
  subject_alt_name: [0x55, 0x1d, 0x11],
};

export function makeAuthority(name = 'a test authority'): Issuer {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const isAuthority = extension(OID.basic_constraints, sequence(tlv(0x01, [0xff])));
  const pem = certificate({ name, key: privateKey }, name, publicKey, [isAuthority], inAnHour());
  return { name, key: privateKey, pem };
}

export function issue(issuer: Issuer, { hosts, not_after }: Subject): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const names = extension(OID.subject_alt_name, sequence(...hosts.map(alternativeName)));
  const cert = certificate(
    issuer,
    hosts[0] ?? 'nobody',
    publicKey,
    [names],
    not_after ?? inAnHour(),
  );
  return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

const inAnHour = () => new Date(Date.now() + 3_600_000);

function certificate(
  issuer: { name: string; key: KeyObject },
  subject: string,
  publicKey: KeyObject,
  extensions: Buffer[],
  notAfter: Date,
): string {
  const algorithm = sequence(tlv(0x06, OID.ecdsa_sha256));
  const toBeSigned = sequence(
    tlv(0xa0, tlv(0x02, [2])),
    tlv(0x02, [1, ...randomBytes(12)]),
    algorithm,
    nameOf(issuer.name),
    sequence(time(new Date(Date.now() - 86_400_000)), time(notAfter)),
    nameOf(subject),
    createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })).export({
      type: 'spki',
      format: 'der',
    }),
    tlv(0xa3, sequence(...extensions)),
  );
  const signature = sign('sha256', toBeSigned, issuer.key);
  const der = sequence(toBeSigned, algorithm, tlv(0x03, [0, ...signature]));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

function nameOf(commonName: string): Buffer {
  return sequence(
    tlv(0x31, sequence(tlv(0x06, OID.common_name), tlv(0x0c, Buffer.from(commonName)))),
  );
}

function alternativeName(host: string): Buffer {
  if (isIP(host) === 4) return tlv(0x87, host.split('.').map(Number));
  if (isIP(host) === 6) throw new Error('certificates for IPv6 addresses are not implemented');
  return tlv(0x82, Buffer.from(host));
}

function extension(oid: number[], value: Buffer): Buffer {
  return sequence(tlv(0x06, oid), tlv(0x04, value));
}

function time(at: Date): Buffer {
  return tlv(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]|\.\d+/g, '')}`));
}

function sequence(...items: Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(items));
}

function tlv(tag: number, content: Uint8Array | number[]): Buffer {
  const bytes = Buffer.from(content);
  if (bytes.length < 0x80) return Buffer.concat([Buffer.from([tag, bytes.length]), bytes]);
  const length = Buffer.from(bytes.length.toString(16).padStart(4, '0'), 'hex');
  return Buffer.concat([Buffer.from([tag, 0x82]), length, bytes]);
}
