/** deploy/nginx/runledger.conf in a folder of its own, with a certificate, for a port without rights. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { read } from './manifests.ts';

export const NGINX = 'deploy/nginx/runledger.conf';

export const makeCertificate = (folder: string) =>
  spawnSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=runledger.example.org', '-days', '2'],
      ...['-addext', 'subjectAltName=DNS:runledger.example.org'],
      ...['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'certificate.pem')],
    ],
    { encoding: 'utf8' },
  );

/** nginx.conf of the folder, which has everything that nginx writes. */
export function writeNginx(folder: string, { port, web }: { port: number; web: number }): void {
  const own = resolve(folder);
  const text = read(NGINX)
    .replaceAll('/etc/runledger/tls', own)
    .replace('listen 443 ', `listen 127.0.0.1:${port} `)
    .replace('listen [::]:443 ', `listen [::1]:${port} `)
    .replace('server 127.0.0.1:8080;', `server 127.0.0.1:${web};`);
  writeFileSync(join(folder, 'runledger.conf'), text);
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  writeFileSync(
    join(folder, 'nginx.conf'),
    [
      'daemon off;',
      'master_process off;',
      `pid ${own}/pid;`,
      `error_log ${own}/error.log;`,
      'events { worker_connections 256; }',
      'http {',
      '  access_log off;',
      ...kinds.map((kind) => `  ${kind}_temp_path ${own}/${kind};`),
      '  include runledger.conf;',
      '}',
      '',
    ].join('\n'),
  );
}
