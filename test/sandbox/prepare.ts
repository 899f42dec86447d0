/** Compiles the suite's programs, so that a guest machine, slow and read-only, finds them done. */
import { findToolchains } from '../../src/executor/toolchains.ts';
import { preparePrograms } from './programs.ts';

const { java } = await findToolchains();
await preparePrograms({ java: java?.home ?? null });
