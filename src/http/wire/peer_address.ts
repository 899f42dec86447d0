import type { Socket } from 'node:net';

/** Behind TLS, a request has another socket than its connection. The address is that of both. */
export const peerAddress = ({ remoteAddress, remotePort }: Socket): string =>
  `${remoteAddress} ${remotePort}`;
