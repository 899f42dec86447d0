// Loaded before each program. Node writes to a pipe without blocking, and `process.exit` drops what it
// has not written yet: a long output would be cut. A program's output must not depend on that.
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
