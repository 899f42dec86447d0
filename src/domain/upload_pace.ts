/**
 * How slowly the archive of a test set may come: each time of RUNLEDGER_REQUEST_TIMEOUT has to bring so many bytes for each of
 * its seconds. So an archive of 256 MiB is there after 70 minutes, or its connection is closed.
 */
export const UPLOAD_BYTES_PER_S = 64 * 1024;
