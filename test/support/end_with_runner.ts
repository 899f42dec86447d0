/**
 * Loaded into every test file (.taprc): ends the file when its runner has ended, even by kill -9. Otherwise the file
 * would run on, with the PostgreSQL that it started.
 *
 * Only the kernel could tell us of the end of our parent, and Node cannot ask it to, so the parent's number is polled:
 * it changes when the parent dies. SIGKILL, because nothing may hold this process up; the servers and workers that it
 * started get their own signal from the kernel.
 */
const POLL_MS = 200;

const runner = process.ppid;
setInterval(() => {
  if (process.ppid !== runner) process.kill(process.pid, 'SIGKILL');
}, POLL_MS).unref();
