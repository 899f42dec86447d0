/**
 * For claims about an action within a time. An attempt that this machine was too slow for proves nothing, and is made
 * again; an attempt that was in time decides.
 */
export async function decided(attempt: () => Promise<'too slow' | 'decided'>): Promise<void> {
  for (let n = 0; n < 10; n += 1) if ((await attempt()) === 'decided') return;
  throw new Error('this machine was too slow in each of ten attempts');
}
