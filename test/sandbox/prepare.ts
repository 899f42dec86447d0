/** Compiles the suite's programs, so that a guest machine, slow and read-only, finds them done. */
import { findToolchains } from '../../src/languages/shared/toolchains.ts';
import { preparePrograms } from './programs.ts';

const { toolchains } = await findToolchains();
await preparePrograms({ java: toolchains.get('java')?.at ?? null });
