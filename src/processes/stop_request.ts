/** Resolves with the reason at the first stop signal, or when the process that started this one ends. */
export function stopRequested(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => resolve(signal));
  process.on('disconnect', () => resolve('the process that started this one has ended'));
  return promise;
}
